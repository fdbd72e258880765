"""Interpreters are selected by running them, not only by their name on PATH."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx_environments.venv.interpreters import find_interpreter, preference, probe, running

OTHER = "3.98"
FAKE = '#!/bin/sh\necho "3.98 3.98.1"\n'
SHIM = '#!/bin/sh\necho "pyenv: python3.98: command not found" >&2\nexit 127\n'


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYENV_ROOT", raising=False)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_running_interpreter_is_preferred_when_it_fits() -> None:
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert find_interpreter([OTHER, minor]) == running()
    assert preference([OTHER, minor]) == [minor, OTHER]


def test_a_shim_that_fails_is_passed_over_for_the_managers_own_copy(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python3.98", SHIM)
    good = program(tmp_path / ".pyenv" / "versions" / "3.98.1" / "bin" / "python3.98", FAKE)
    found = find_interpreter([OTHER])
    assert (found.path, found.minor, found.version) == (str(good), "3.98", "3.98.1")


def test_a_later_folder_of_path_counts_when_the_first_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "python3.98", SHIM)
    good = program(tmp_path / "more" / "python3.98", FAKE)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{tmp_path / 'more'}")
    assert find_interpreter([OTHER]).path == str(good)


def test_uv_is_asked_where_it_keeps_interpreters(tmp_path: Path) -> None:
    good = program(tmp_path / "elsewhere" / "python", FAKE)
    program(tmp_path / "bin" / "uv", f'#!/bin/sh\n[ "$*" = "python find 3.98" ] && echo {good}\n')
    assert find_interpreter([OTHER]).path == str(good)


def test_none_at_all_says_how_to_get_one() -> None:
    with pytest.raises(InfraError) as caught:
        find_interpreter([OTHER, "3.99"])
    assert "no Python 3.98 or 3.99 was found" in str(caught.value)
    assert "apt install python3.98" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_interpreter_of_another_version_does_not_pass_as_this_one() -> None:
    assert probe(sys.executable, OTHER) is None
