"""An environment without CUDA of which only the CUDA build is available: refused, unless it is allowed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .toy import Index, make_wheel, pip_settings, prepare

MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
CPU, CUDA = "1 packages, 7 MB to download, 9 MB on disk", "2 packages, 700 MB to download, 900 MB on disk"
LOCK = f"""
name = "toy"
pythons = ["{MINOR}"]
steps = [["alpha==1.0"]]
download_mb = 7
disk_mb = 9

[variants]
"alpha==1.0" = [["alpha==1.0+cpu", ""], ["alpha==1.0+cpu", "INDEX/whl/cpu"], ["alpha==1.0", ""]]

[variant_mb]
"alpha==1.0" = [700, 900]

[variant_packages]
"alpha==1.0" = ["beta-cu13==1.0"]
"""
Prepare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """The folder of the user's package index: it has the CUDA build."""
    folder = tmp_path / "wheelhouse"
    make_wheel(folder, "alpha")
    make_wheel(folder, "beta_cu13")
    return folder


@pytest.fixture
def main(wheels: Path) -> Iterator[Index]:
    """The user's package index."""
    index = Index(wheels)
    yield index
    index.shutdown()


@pytest.fixture
def build(tmp_path: Path, main: Index) -> Prepare:
    """`build("--offline", index=…, LLMBX_…=…)`: exit code, stdout and stderr; the index of CPU builds is closed."""

    def run(*options: str, index: str = "http://127.0.0.1:9", **env: str) -> tuple[int, str, str]:
        lock = tmp_path / "lock.toml"
        lock.write_text(LOCK.replace("INDEX", index))
        settings = pip_settings(tmp_path, PIP_INDEX_URL=main.url, **env)
        return prepare(lock, tmp_path / "install", settings, *options)

    return run


def downloaded(index: Index) -> list[str]:
    return [path for path in index.asked if path.endswith(".whl")]


def test_it_is_refused_before_anything_is_downloaded(build: Prepare, main: Index) -> None:
    code, _, err = build()
    assert code == 4
    refusal = err.splitlines()[-1]
    assert "http://127.0.0.1:9/whl/cpu cannot be reached (Connection refused)" in refusal
    assert f"the CUDA build alpha==1.0 is larger: {CUDA}; without CUDA: {CPU}" in refusal
    assert "--allow-cuda-build or LLMBX_ALLOW_CUDA_BUILD=1" in refusal
    assert downloaded(main) == []


def test_it_is_announced_and_installed_if_it_is_allowed(build: Prepare) -> None:
    code, python, err = build(LLMBX_ALLOW_CUDA_BUILD="1")
    assert code == 0, err
    lines = err.splitlines()
    said = next(number for number, line in enumerate(lines) if "so the CUDA build alpha==1.0 is used" in line)
    assert "cannot be reached" in lines[said] and CUDA in lines[said] and CPU in lines[said]
    assert "2 pinned packages" in lines[said + 1]
    assert list(Path(python.strip()).parents[1].glob("lib/*/site-packages/beta_cu13.py"))


def test_nothing_is_asked_if_a_package_source_has_the_cpu_build(build: Prepare, wheels: Path) -> None:
    make_wheel(wheels, "alpha", "1.0+cpu")
    code, _, err = build()
    assert code == 0 and "CUDA" not in err, err


def test_an_index_without_the_cpu_build_is_named(build: Prepare, main: Index) -> None:
    code, _, err = build(index=main.url)
    assert code == 4 and f"{main.url}/whl/cpu does not have alpha==1.0+cpu" in err


def test_wheels_of_an_offline_installation_are_used(build: Prepare, wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "install").mkdir()
    wheels.rename(tmp_path / "install/wheels")
    code, _, err = build("--offline")
    assert code == 0 and "2 pinned packages" in err, err
