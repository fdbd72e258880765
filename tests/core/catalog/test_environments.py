"""Environment locks: strict reading, and the packages of a platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.catalog.environments import for_platform, load_environment, unverified
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


def test_an_unknown_key_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_environment(write(tmp_path, LOCK.replace("disk_mb", "disc_mb")))
    assert str(caught.value).startswith(str(tmp_path / "toy.toml"))
    assert "unknown key 'disc_mb' (did you mean 'disk_mb'?)" in str(caught.value)


FILES = f"""
[files]
"toy-1.0-py3-none-any.whl" = "sha256:{"a1" * 32}"
"""


def test_a_lock_or_a_base_without_digests_is_named(tmp_path: Path) -> None:
    whole, plain = (load_environment(write(tmp_path, text)) for text in (LOCK + FILES, LOCK))
    assert (unverified(whole), unverified(plain)) == (None, "toy-cpu")
    assert unverified(whole.replace(name="overlay", base=plain)) == "toy-cpu"
    assert unverified(plain.replace(steps=())) is None, "a Python without packages"


PLATFORMS = """
[platforms]
linux-x86_64 = ["triton==3.7.1"]
linux-aarch64 = []
[needs]
"toy==1.0" = ["nvcc", "cudnn.h"]
"""


def test_a_platform_adds_its_packages_to_the_first_step(tmp_path: Path) -> None:
    lock = load_environment(write(tmp_path, LOCK + PLATFORMS), whole=True)
    assert lock.platforms == {"linux-x86_64": ("triton==3.7.1",), "linux-aarch64": ()}
    here = for_platform(lock, "linux-x86_64")
    assert here.steps == (("torch==2.13.0", "Num_Py[fast]==2.3.5", "triton==3.7.1"), ("toy==1.0",))
    assert here.platforms == {"linux-x86_64": (), "linux-aarch64": ()}
    assert for_platform(here, "linux-x86_64") == here
    assert for_platform(lock, "linux-aarch64").steps == lock.steps
