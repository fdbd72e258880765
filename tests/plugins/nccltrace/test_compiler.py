"""The compiled scanner: made once, kept safely, never needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx_nccltrace import native
from llmbx_nccltrace.compiler import SWITCH, cache_folder, find_compiler, shared_object
from llmbx_nccltrace.scan import read_logs

from .lines import coll


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def made(environ: Mapping[str, str]) -> Path | None:
    """Where the compiled scanner lies."""
    with shared_object(native.SOURCE, environ) as path:
        return path


def test_it_is_compiled_once_and_then_taken_from_the_cache(environ: dict[str, str]) -> None:
    first = made(environ)
    assert first is not None and first.parent == cache_folder(environ)
    assert made({**environ, SWITCH: "none"}) == first


def test_a_cache_that_others_can_write_is_not_trusted(environ: dict[str, str]) -> None:
    first = made(environ)
    assert first is not None
    first.parent.chmod(0o777)
    assert made({**environ, SWITCH: "none"}) is None
    again = made(environ)
    assert again is not None and again != first
    first.parent.chmod(0o700)
    first.chmod(0o666)
    assert made({**environ, SWITCH: "none"}) is None


def test_without_a_cache_it_lasts_as_long_as_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with native.scanner({"XDG_CACHE_HOME": str(tmp_path / "cache")}) as compiled:
        assert compiled is not None
    assert (tmp_path / "cache").read_text() == "in the way"


def test_a_file_in_the_cache_that_is_no_scanner_is_not_used(environ: dict[str, str]) -> None:
    path = made(environ)
    assert path is not None
    path.write_bytes(b"not a library")
    with native.scanner(environ) as compiled:
        assert compiled is None


def test_which_compiler(tmp_path: Path) -> None:
    own = tmp_path / "mycc"
    own.write_text("#!/bin/sh\nexit 1\n")
    own.chmod(0o755)
    assert find_compiler({SWITCH: f"{own} -m64", "CC": "gcc"}) == [str(own), "-m64"]
    assert find_compiler({"CC": str(own)}) == [str(own)]
    assert find_compiler({SWITCH: "none", "CC": str(own)}) is None
    assert made({"XDG_CACHE_HOME": str(tmp_path), SWITCH: str(own)}) is None


def test_without_a_compiler_the_same_is_read_and_native_says_why_it_cannot(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "none")
    log = tmp_path / "log"
    log.write_text((coll() + "\n") * 60_000)
    tally, used = read_logs([log])
    assert (tally.calls, used) == (60_000, "python")
    with pytest.raises(InfraError, match=r"no C compiler was found: install gcc or clang, or use --engine python"):
        read_logs([log], "native")
    monkeypatch.delenv(SWITCH)
    again, used = read_logs([log])
    assert used == "native" and again == tally


def test_a_small_log_is_never_worth_a_compiler(tmp_path: Path, environ: dict[str, str]) -> None:
    log = tmp_path / "log"
    log.write_text(coll() + "\n")
    assert read_logs([log])[1] == "python"
    assert not cache_folder(environ).exists()
