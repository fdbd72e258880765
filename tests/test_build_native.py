"""The compiled libraries: part of the wheel if there is a C compiler when it is built, and optional."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx_nccltrace import native_engine
from llmbx_nccltrace.analysis import read_report
from llmbx_nccltrace.scan import read_logs

from .plugins.nccltrace.lines import coll

ROOT = Path(__file__).parents[1]
LIBRARIES = {"llmbx_nccltrace/libscan.so": "plugins/ncclTrace", "llmbx/logs/libskim.so": "core"}
"""The folder of each in the tree."""
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a wheel is built from, with a library that an editable installation left in it."""
    copy = tmp_path_factory.mktemp("build") / "llmbx"
    for name in ("core", "plugins"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for library, folder in LIBRARIES.items():
        (copy / folder / library).write_text("an old library")
    return copy


def build(tree: Path, out: Path, **environ: str) -> Path:
    """Build the wheel of the tree and return its path."""
    out.mkdir()
    clean = {name: value for name, value in os.environ.items() if name not in ("CC", "HATCH_BUILD_NO_HOOKS")}
    command = [sys.executable, "-c", BUILD, out]
    done = subprocess.run(command, cwd=tree, env=clean | environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def metadata(wheel: Path) -> tuple[str | None, str | None]:
    """Return `Tag` and `Root-Is-Purelib` of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("dist-info/WHEEL"))
        found = Parser().parsestr(archive.read(name).decode())
    return found["Tag"], found["Root-Is-Purelib"]


def files(wheel: Path) -> set[str]:
    """Return the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_wheel_has_the_libraries_for_its_platform_and_every_python(tree: Path, tmp_path: Path) -> None:
    wheel = build(tree, tmp_path / "out")
    tag, pure = metadata(wheel)
    assert wheel.name.endswith(f"-{tag}.whl") and pure == "false"
    assert tag is not None and tag.startswith("py3-none-") and not tag.endswith("-any")
    assert files(wheel) >= set(LIBRARIES) and not [name for name in files(wheel) if name.endswith(".c")]
    with zipfile.ZipFile(wheel) as archive:
        ctypes.CDLL(archive.extract("llmbx_nccltrace/libscan.so", tmp_path)).scan  # noqa: B018
        ctypes.CDLL(archive.extract("llmbx/logs/libskim.so", tmp_path)).look  # noqa: B018


def test_without_a_compiler_the_wheel_is_pure_python(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "mycc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    missing = build(tree, tmp_path / "missing", PATH=str(tmp_path / "bin"))
    failing = build(tree, tmp_path / "failing", CC=f"{broken} -m64")
    for wheel in (missing, failing):
        assert metadata(wheel) == ("py3-none-any", "true") and wheel.name.endswith("-py3-none-any.whl")
        assert not files(wheel) & set(LIBRARIES) and "llmbx_nccltrace/native_engine.py" in files(wheel)


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_editable_build_replaces_the_libraries_in_the_tree(tree: Path, tmp_path: Path, name: str) -> None:
    hook = f"""
import sys; sys.path.insert(0, "plugins")
from build_native import NativeHook
NativeHook({str(tree)!r}, {{}}, None, None, "", "wheel").initialize("editable", {{}})
"""
    library = tree / LIBRARIES[name] / name
    library.write_bytes(b"an old library")
    subprocess.run([sys.executable, "-c", hook], cwd=tree, check=True)
    assert library.read_bytes()[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")
    subprocess.run([sys.executable, "-c", hook], cwd=tree, env={"PATH": str(tmp_path)}, check=True)
    assert not library.exists()


@pytest.mark.parametrize("content", [None, b"not a library"])
def test_without_the_library_python_counts_the_same_and_native_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    log, library, notes = tmp_path / "log", tmp_path / "libscan.so", list[str]()
    log.write_text((coll() + "\n") * 60_000)
    native, used = read_logs([log])
    assert (native.calls, used) == (60_000, "native")
    monkeypatch.setattr(native_engine, "SHARED_OBJECT", library)
    if content:
        library.write_bytes(content)
    assert read_logs([log]) == (native, "python")
    with pytest.raises(InfraError, match=r"has no compiled scanner: reinstall it with a C compiler .*--engine python"):
        read_logs([log], "native")
    monkeypatch.setattr("llmbx_nccltrace.analysis._MANY_LINES", 50_000)
    read_report([log], note=notes.append)
    assert len(notes) == 1 and "reinstall llmbx with gcc or clang" in notes[0]
