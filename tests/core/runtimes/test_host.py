"""The host runtime uses the configured Python and reports if it does not work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx.model import ImageRequest
from llmbx.runtimes.host import HostRuntime


def prepare(tmp_path: Path) -> tuple[str, dict[str, str]]:
    image = HostRuntime().prepare(ImageRequest(), tmp_path, lambda line: None)
    return image.python, image.versions


def test_the_configured_python_is_used_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_PYTHON", sys.executable)
    assert prepare(tmp_path) == (sys.executable, {"python": sys.version.split()[0]})
    assert HostRuntime().check(tmp_path) is None


def test_a_python_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_PYTHON", "/nowhere/python")
    with pytest.raises(InfraError, match="LLMBX_PYTHON=/nowhere/python is not an executable"):
        prepare(tmp_path)
    assert HostRuntime().check(tmp_path) is not None


def test_without_any_python_it_is_not_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLMBX_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert HostRuntime().available() == "python3 is not on PATH; set LLMBX_PYTHON"


def test_the_error_message_of_a_failing_python_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho 'python3: command not found in this version' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("LLMBX_PYTHON", str(broken))
    with pytest.raises(InfraError, match="does not run: python3: command not found in this version"):
        prepare(tmp_path)
