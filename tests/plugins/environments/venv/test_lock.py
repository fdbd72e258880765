"""Locks: what is written, for which CUDA packages are, what a build needs, and what a check finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.api import Environment, InfraError, UsageError, load_environment
from llmbx_environments.venv import cuda, lock_check, needs
from llmbx_environments.venv.lock import Builds, differences, environment, require_cuda, text
from llmbx_environments.venv.resolution import Package, packages

DIGESTS = [f"sha256:{letter * 64}" for letter in "abcdef"]


def package(name: str, version: str = "1.0", tag: str = "py3-none-any", digest: int = 0, **more: object) -> Package:
    archive = f"{name}-{version}.tar.gz"
    return Package(
        name=name, version=version, wheels={f"{name.replace('-', '_')}-{version}-{tag}.whl": DIGESTS[digest]},
        archives={archive: DIGESTS[5]}, size=2_000_000,
    ).replace(**more)  # fmt: skip


RESOLVED = {
    "linux-x86_64": [
        package("alpha", tag="cp312-cp312-manylinux_2_28_x86_64"),
        package("kernels", wheels={}),
        package("setuptools", "80.0"),
        package("triton", "3.7", digest=1, size=9_000_000),
    ],
    "linux-aarch64": [
        package("alpha", tag="cp312-cp312-manylinux_2_28_aarch64", digest=2),
        package("kernels", wheels={}),
        package("setuptools", "80.0"),
    ],
}
BUILDS = Builds(needs={"kernels": ("nvcc", "cudnn.h")}, env={"KERNELS_FORCE_BUILD": "1"})
TEXT = f"""\
# Made by: llmbx env lock alpha

name = "toy"
pythons = ["3.12"]
no_deps = [0, 1]
download_mb = 15
check = "import alpha"
main = ["alpha"]
steps = [
    [
        "alpha==1.0",
        "setuptools==80.0",
    ],
    [
        "kernels==1.0",
    ],
]

[platforms]
linux-x86_64 = ["triton==3.7"]
linux-aarch64 = []

[needs]
"kernels==1.0" = ["nvcc", "cudnn.h"]

[build_env]
KERNELS_FORCE_BUILD = "1"

[files]
"alpha-1.0-cp312-cp312-manylinux_2_28_aarch64.whl" = "{DIGESTS[2]}"
"alpha-1.0-cp312-cp312-manylinux_2_28_x86_64.whl" = "{DIGESTS[0]}"
"kernels-1.0.tar.gz" = "{DIGESTS[5]}"
"setuptools-80.0-py3-none-any.whl" = "{DIGESTS[0]}"
"triton-3.7-py3-none-any.whl" = "{DIGESTS[1]}"
"""


def made() -> Environment:
    return environment("toy", "3.12", RESOLVED, BUILDS, "import alpha", ["alpha"])


def test_a_lock_of_two_platforms_is_written_and_read_again(tmp_path: Path) -> None:
    assert text(made(), "Made by: llmbx env lock alpha") == TEXT
    path = tmp_path / "toy.toml"
    path.write_text(TEXT)
    assert load_environment(path, whole=True) == made()
    assert lock_check.form_problems(path) == (made(), [])
    assert differences(RESOLVED) == ["only on linux-x86_64: triton"]


def test_packages_of_another_index_are_variants_that_name_it(tmp_path: Path) -> None:
    resolved = {"linux-x86_64": [package("alpha", "1.0+cu128", index="https://wheels.example/cu128")]}
    lock = environment("toy", "3.12", resolved, Builds())
    assert lock.variants == {
        "alpha==1.0+cu128": (("alpha==1.0+cu128", None), ("alpha==1.0+cu128", "https://wheels.example/cu128"))
    }
    path = tmp_path / "toy.toml"
    path.write_text(text(lock, "a comment with a\nline break"))
    assert load_environment(path, whole=True) == lock
    assert path.read_text().startswith("# a comment with a?line break\n\n") and lock.cuda == 12


def test_what_is_built_must_be_the_same_everywhere() -> None:
    resolved = {**RESOLVED, "linux-aarch64": [package("kernels", "2.0", wheels={})]}
    with pytest.raises(UsageError, match="--build kernels: it must be required, in the same version on all platforms"):
        environment("toy", "3.12", resolved, BUILDS)


@pytest.mark.parametrize(
    ("name", "version", "found"),
    [
        ("nvidia-cublas-cu12", "12.9.3", 12),
        ("jax-cuda13-plugin", "0.12.0", 13),
        ("cupy-cuda12x", "13.6.0", 12),
        ("torch", "2.10.0+cu128", 12),
        ("torch", "2.13.0", None),
        ("cuda-toolkit", "13.0.3", 13),
        ("nvidia-cudnn-cu13", "9.20", 13),
        ("nvidia-cublas", "13.4.1", None),
        ("cucumber", "12.0", None),
    ],
)
def test_the_cuda_of_a_package(name: str, version: str, found: int | None) -> None:
    assert cuda.major(name, version) == found


def test_a_platform_without_the_cuda_that_was_asked_for_is_refused() -> None:
    twelve, thirteen = package("nvidia-cublas-cu12", "12.9"), package("cuda-toolkit", "13.0")
    require_cuda({"linux-x86_64": [twelve]}, 12)
    require_cuda({"linux-x86_64": [package("alpha")]}, None)
    for resolved, wanted, said in (
        ([twelve, thirteen], 12, "linux-x86_64: cuda-toolkit==13.0 is for CUDA 13, not for CUDA 12"),
        ([thirteen], None, "cuda-toolkit==13.0 is for CUDA 13, not for machines without CUDA"),
        ([package("alpha")], 13, "no package is for CUDA 13: these versions have no such build there"),
    ):
        with pytest.raises(UsageError) as caught:
            require_cuda({"linux-x86_64": resolved}, wanted)
        assert said in str(caught.value)


def test_a_standard_lock_is_read_and_what_is_not_from_an_index_is_refused() -> None:
    digest = {"hashes": {"sha256": "a" * 64}}
    wheel = {"url": "https://files.example/torch-2.10.0%2Bcu128-cp312-cp312-linux_x86_64.whl#x", "size": 5, **digest}
    (found,) = packages({"packages": [{"name": "Torch", "version": "2.10.0+cu128", "wheels": [wheel]}]})
    assert found.wheels == {"torch-2.10.0+cu128-cp312-cp312-linux_x86_64.whl": DIGESTS[0]}
    assert (found.pin, found.size) == ("torch==2.10.0+cu128", 5)
    with pytest.raises(UsageError, match="own: only packages of an index can be locked"):
        packages({"packages": [{"name": "own", "directory": {"path": "."}}]})
    with pytest.raises(InfraError, match=r"the package index has no sha256 of own-1-py3-none-any\.whl"):
        packages({"packages": [{"name": "own", "version": "1", "wheels": [{"path": "own-1-py3-none-any.whl"}]}]})


def test_what_a_build_needs_is_named_and_what_is_missing_is_refused(tmp_path: Path) -> None:
    python = tmp_path / "python/bin/python3.12"
    environ = {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "cuda"), "CXX": "", "CPATH": str(tmp_path)}
    lock = made().replace(needs={"kernels==1.0": ("toolc", "Toy.h", "toy_cudnn.h")})
    with pytest.raises(InfraError) as caught:
        needs.require(lock, "toy-py312", str(python), environ)
    assert "this machine has no toolc (for kernels==1.0), Toy.h (for kernels==1.0), toy_cudnn.h" in str(caught.value)
    for path in ("cuda/bin/toolc", "python/include/python3.12/Toy.h", "toy_cudnn.h"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch(0o755)
    assert needs.require(lock, "toy-py312", str(python), environ) == [
        "environment toy-py312: kernels==1.0 is built from source and needs toolc, Toy.h, toy_cudnn.h"
    ]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/clang++").touch(0o755)
    assert needs.find("c++", str(python), environ) == tmp_path / "bin/clang++"
    assert needs.find("c++", str(python), {**environ, "CXX": "missing-compiler -O2"}) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[platforms]\nlinux-x86_64 = [\"triton==3.7\"]\nlinux-aarch64 = []\n", "", "no platforms are named"),
        ("alpha==1.0", "alpha>=1.0", "'alpha>=1.0' is not an exact pin"),
        (f'"{DIGESTS[1]}"', '"sha256:12"', "must be sha256: and 64 hexadecimal digits"),
        (f'"triton-3.7-py3-none-any.whl" = "{DIGESTS[1]}"\n', "", "no file of 'triton==3.7'"),
        ("2_28_aarch64", "2_28_riscv64", "no file of alpha==1.0 for Python 3.12 on linux-aarch64"),
        ("[files]", "[fils]", "unknown key 'fils' (did you mean 'files'?)"),
    ],
)  # fmt: skip
def test_a_faulty_lock_is_explained(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "toy.toml"
    assert old in TEXT
    changed = TEXT.replace(old, new)
    path.write_text(changed if new else changed.replace('"triton-3.7-py3-none-any.whl" = "' + DIGESTS[1] + '"\n', ""))
    _, problems = lock_check.form_problems(path)
    assert any(said in problem for problem in problems), problems


def test_a_file_that_is_no_toml_is_no_lock(tmp_path: Path) -> None:
    for content in (None, "name = "):
        path = tmp_path / "toy.toml"
        if content is not None:
            path.write_text(content)
        with pytest.raises(UsageError, match=r"toy\.toml: "):
            lock_check.form_problems(path)


def test_the_shipped_locks_keep_their_form() -> None:
    found = sorted(Path(__file__).parents[4].glob("plugins/*/llmbx_*/environments/*.toml"))
    assert len(found) >= 4
    assert {path.name: lock_check.form_problems(path)[1] for path in found} == {path.name: [] for path in found}
