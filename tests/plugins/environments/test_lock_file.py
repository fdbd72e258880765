"""Environment locks: what they must not state, and the digest of the installed packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.catalog.environments import for_platform, load_environment
from llmbx.errors import UsageError
from llmbx.model import ImageRequest
from llmbx_environments.containers.built import built_reference
from llmbx_environments.lock_file import Pin, files_of, lock_digest, read_lock, require_valid, versions_of
from llmbx_environments.venv.runtime import requested_environment

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
        read_lock(write(tmp_path, LOCK.replace(old, new)))
    assert str(caught.value).startswith(str(tmp_path / "toy.toml"))
    assert said in str(caught.value)


def test_the_digest_follows_what_is_installed_and_not_the_sizes(tmp_path: Path) -> None:
    digest = lock_digest(load_environment(write(tmp_path, LOCK)))
    resized = lock_digest(load_environment(write(tmp_path, LOCK.replace("1250\ncheck", "9999\ncheck"))))
    repinned = lock_digest(load_environment(write(tmp_path, LOCK.replace("toy==1.0", "toy==1.1"))))
    assert resized == digest
    assert repinned != digest


DIGEST = f"sha256:{'a1' * 32}"
FILES = f"""
[files]
"torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl" = "{DIGEST}"
"num_py-2.3.5.tar.gz" = "{DIGEST}"
"Toy-1.0-py3-none-any.whl" = "{DIGEST}"
"""


def test_the_files_of_a_requirement_are_found_whatever_their_names_look_like(tmp_path: Path) -> None:
    environment = load_environment(write(tmp_path, LOCK + FILES))
    assert files_of(environment, "Num_Py[fast]==2.3.5") == {"num_py-2.3.5.tar.gz": DIGEST}
    assert list(files_of(environment, "torch==2.13.0+cpu")) == [
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    ]
    assert files_of(environment, "torch==2.13.0") == {}
    assert Pin.in_file("antlr4-python3-runtime-4.9.3.tar.gz") == ("antlr4-python3-runtime", "4.9.3")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (DIGEST, "sha256:a1", "must be sha256: and 64 hexadecimal digits"),
        (DIGEST, DIGEST.replace("sha256", "md5"), "must be sha256: and 64 hexadecimal digits"),
        ("Toy-1.0-py3", "Toy-1.1-py3", "no step installs 'Toy-1.1-py3-none-any.whl'"),
        ("num_py-2.3.5.tar.gz", "num_py-2.3.5.exe", "is neither a wheel nor a source archive"),
        (f'"num_py-2.3.5.tar.gz" = "{DIGEST}"', "", "no file of 'Num_Py[fast]==2.3.5'"),
        ("torch-2.13.0+cpu", "torch-2.13.0", "no step installs 'torch-2.13.0-cp311"),
    ],
)
def test_files_must_cover_every_requirement(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in FILES
    with pytest.raises(UsageError) as caught:
        read_lock(write(tmp_path, LOCK + FILES.replace(old, new)))
    assert str(caught.value).startswith(str(tmp_path / "toy.toml")) and said in str(caught.value)


def test_another_file_of_the_same_version_is_another_lock(tmp_path: Path) -> None:
    one = load_environment(write(tmp_path, LOCK + FILES))
    other = load_environment(write(tmp_path, LOCK + FILES.replace(DIGEST, f"sha256:{'b2' * 32}", 1)))
    plain = load_environment(write(tmp_path, LOCK))
    assert len({lock_digest(one), lock_digest(other), lock_digest(plain)}) == 3


PLATFORMS = """
[platforms]
linux-x86_64 = ["triton==3.7.1"]
linux-aarch64 = []
[needs]
"toy==1.0" = ["nvcc", "cudnn.h"]
"""


def test_naming_platforms_and_needs_does_not_change_what_is_installed(tmp_path: Path) -> None:
    plain = lock_digest(load_environment(write(tmp_path, LOCK), whole=True))
    named = LOCK + PLATFORMS.replace('"triton==3.7.1"', "")
    assert lock_digest(load_environment(write(tmp_path, named), whole=True)) == plain
    assert lock_digest(load_environment(write(tmp_path, f'{named}[build_env]\nFORCE = "1"'), whole=True)) != plain


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("linux-aarch64", "linux-riscv64", "platforms: 'linux-riscv64' is neither linux-x86_64 nor linux-aarch64"),
        ("triton==3.7.1", "triton>=3", "'triton>=3' is not an exact pin"),
        (
            '"toy==1.0" = ["nvcc"',
            '"toy==2.0" = ["nvcc"',
            "needs: no step installs 'toy==2.0' (did you mean 'toy==1.0'?)",
        ),
    ],
)
def test_a_platform_or_need_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = LOCK + PLATFORMS
    assert old in text
    with pytest.raises(UsageError) as caught:
        read_lock(write(tmp_path, text.replace(old, new)))
    assert said in str(caught.value)


def test_the_lock_of_one_platform_may_have_files_of_others(tmp_path: Path) -> None:
    whole = f'{LOCK}{PLATFORMS}{FILES}"triton-3.7.1-py3-none-any.whl" = "{DIGEST}"\n'
    lock = read_lock(write(tmp_path, whole))
    assert versions_of(lock) == {"torch": "2.13.0", "num-py": "2.3.5", "toy": "1.0"}
    require_valid(for_platform(lock, "linux-aarch64"), "here")
    with pytest.raises(UsageError, match="here: 'triton>=3' is not an exact pin"):
        require_valid(for_platform(lock.replace(platforms={"linux-x86_64": ("triton>=3",)}), "linux-x86_64"), "here")


def test_a_lock_that_contradicts_itself_is_neither_built_nor_named(tmp_path: Path) -> None:
    lock = load_environment(write(tmp_path, LOCK.replace("toy-cpu", "../toy")))
    with pytest.raises(UsageError, match=r"environment \.\./toy: name '\.\./toy' may only contain"):
        requested_environment(ImageRequest(environment=lock))
    with pytest.raises(UsageError, match="may only contain"):
        built_reference(lock)


def test_what_a_base_installs_may_be_shown_as_the_environments_own(tmp_path: Path) -> None:
    base = load_environment(write(tmp_path, LOCK))
    over = base.replace(name="over", steps=(("more==1.0",),), no_deps=(), variants={}, variant_mb={})
    with pytest.raises(UsageError, match="here: main: no step installs 'torch'"):
        require_valid(over, "here")
    require_valid(over.replace(base=base), "here")
