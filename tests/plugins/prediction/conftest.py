"""Fixtures: the verbs in an empty install."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from llmbx.cli.main import main


@dataclasses.dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture
def llmbx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`llmbx("atlas", "grok1")`: run a command in an empty install."""
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setattr("llmbx.cli.main.own_process", lambda: None)  # the alarm is the tests'
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        monkeypatch.setattr("sys.argv", ["llmbx", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def answer(llmbx: Command) -> Callable[..., Any]:
    """`answer("atlas", "grok1")`: what the command prints as JSON."""

    def run(*words: str) -> Any:
        done = llmbx(*words, "--format", "json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    return run


def write_table(path: Path, header: str, *lines: str) -> Sequence[str]:
    """Write a CSV table and return the command that adds it."""
    path.write_text("\n".join((header, *lines)) + "\n")
    return "atlas", "add", str(path)
