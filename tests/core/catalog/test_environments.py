"""Environment locks: strict reading, and the digest of the installed packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.catalog.environments import load_environment, lock_digest, pins
from llmbx.errors import UsageError

LOCK = """
name = "toy-cpu"
pythons = ["3.11", "3.12"]
steps = [["torch==2.13.0", "Num_Py[fast]==2.3.5"], ["toy==1.0"]]
no_deps = [1]
disk_mb = 1250
check = "import toy"
main = ["torch", "num-py"]
[variants]
"torch==2.13.0" = [["torch==2.13.0+cpu", ""], ["torch==2.13.0+cpu", "https://wheels.example/cpu"]]
[variant_mb]
"torch==2.13.0+cpu" = [320, 1250]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(text)
    return path


def test_a_lock_is_read_and_an_empty_index_means_the_configured_ones(tmp_path: Path) -> None:
    environment = load_environment(write(tmp_path, LOCK))
    assert environment.variants["torch==2.13.0"] == (
        ("torch==2.13.0+cpu", None),
        ("torch==2.13.0+cpu", "https://wheels.example/cpu"),
    )
    assert pins(environment) == {"torch": "2.13.0", "num-py": "2.3.5", "toy": "1.0"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("disk_mb", "disc_mb", "unknown key 'disc_mb' (did you mean 'disk_mb'?)"),
        ("toy==1.0", "toy>=1.0", "'toy>=1.0' is not an exact pin"),
        ("toy==1.0", "toy==1.*", "'toy==1.*' is not an exact pin"),
        ("no_deps = [1]", "no_deps = [2]", "no_deps: there is no step 2 (there are 2 steps"),
        ('"torch==2.13.0" = [["t', '"torch==2.13.1" = [["t', "(did you mean 'torch==2.13.0'?)"),
        ('"torch==2.13.0+cpu" = [320', '"torch==2.13.0+cp" = [320', "(did you mean 'torch==2.13.0+cpu'?)"),
        ('"3.11", "3.12"', "", "pythons must list at least one Python version"),
        ('"num-py"', '"num-pi"', "main: no step installs 'num-pi' (did you mean 'num-py'?)"),
        ("toy-cpu", "../toy", "name '../toy' may only contain"),
    ],
)
def test_a_broken_lock_names_the_file_and_the_remedy(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in LOCK
    with pytest.raises(UsageError) as caught:
        load_environment(write(tmp_path, LOCK.replace(old, new)))
    assert str(caught.value).startswith(str(tmp_path / "toy.toml"))
    assert said in str(caught.value)


def test_the_digest_follows_what_is_installed_and_not_the_sizes(tmp_path: Path) -> None:
    digest = lock_digest(load_environment(write(tmp_path, LOCK)))
    resized = lock_digest(load_environment(write(tmp_path, LOCK.replace("1250\ncheck", "9999\ncheck"))))
    repinned = lock_digest(load_environment(write(tmp_path, LOCK.replace("toy==1.0", "toy==1.1"))))
    assert resized == digest
    assert repinned != digest
