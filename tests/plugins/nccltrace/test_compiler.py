"""The compiled scanner: compiled once, cached safely, and optional."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx_nccltrace import native_engine
from llmbx_nccltrace.compiler import COMPILER_VARIABLE, cache_folder, find_compiler, shared_object
from llmbx_nccltrace.scan import read_logs

from .lines import coll


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def made(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the compiled scanner."""
    with shared_object(native_engine.SOURCE, environ) as path:
        return path


def test_it_is_compiled_once_and_then_taken_from_the_cache(environ: dict[str, str]) -> None:
    first = made(environ)
    assert first is not None and first.parent == cache_folder(environ)
    assert made({**environ, COMPILER_VARIABLE: "none"}) == first


def test_a_cache_that_others_can_write_is_not_trusted(environ: dict[str, str]) -> None:
    first = made(environ)
    assert first is not None
    first.parent.chmod(0o777)
    assert made({**environ, COMPILER_VARIABLE: "none"}) is None
    again = made(environ)
    assert again is not None and again != first
    first.parent.chmod(0o700)
    first.chmod(0o666)
    assert made({**environ, COMPILER_VARIABLE: "none"}) is None


def test_without_a_writable_cache_it_is_temporary(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with native_engine.scanner({"XDG_CACHE_HOME": str(tmp_path / "cache")}) as compiled:
        assert compiled is not None
    assert (tmp_path / "cache").read_text() == "in the way"


def test_an_invalid_file_in_the_cache_is_not_used(environ: dict[str, str]) -> None:
    path = made(environ)
    assert path is not None
    path.write_bytes(b"not a library")
    with native_engine.scanner(environ) as compiled:
        assert compiled is None


def test_the_compiler_is_configurable(tmp_path: Path) -> None:
    own = tmp_path / "mycc"
    own.write_text("#!/bin/sh\nexit 1\n")
    own.chmod(0o755)
    assert find_compiler({COMPILER_VARIABLE: f"{own} -m64", "CC": "gcc"}) == [str(own), "-m64"]
    assert find_compiler({"CC": str(own)}) == [str(own)]
    assert find_compiler({COMPILER_VARIABLE: "none", "CC": str(own)}) is None
    assert made({"XDG_CACHE_HOME": str(tmp_path), COMPILER_VARIABLE: str(own)}) is None


def test_without_a_compiler_python_counts_the_same_and_native_is_an_error(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPILER_VARIABLE, "none")
    log = tmp_path / "log"
    log.write_text((coll() + "\n") * 60_000)
    counts, used = read_logs([log])
    assert (counts.calls, used) == (60_000, "python")
    with pytest.raises(InfraError, match=r"no C compiler found: install gcc or clang, or use --engine python"):
        read_logs([log], "native")
    monkeypatch.delenv(COMPILER_VARIABLE)
    again, used = read_logs([log])
    assert used == "native" and again == counts


def test_a_small_log_is_read_without_a_compiler(tmp_path: Path, environ: dict[str, str]) -> None:
    log = tmp_path / "log"
    log.write_text(coll() + "\n")
    assert read_logs([log])[1] == "python"
    assert not cache_folder(environ).exists()
