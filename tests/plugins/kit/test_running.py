"""A command that a check runs in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx_kit import running
from llmbx_kit.isolation import Isolated

HANG = "llmbx: plugin 'x': feed has been running for 10 s (Ctrl-C ends llmbx)"


def test_a_call_that_does_not_return_is_shown_while_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = f"import sys; print('progress', file=sys.stderr); print({HANG!r}, file=sys.stderr); print('out')"
    monkeypatch.setattr(running, "LLMBX", ("-c", lines))
    done = running.command(Isolated(tmp_path))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out\n", f"progress\n{HANG}\n")
    assert capfd.readouterr().err == f"{HANG}\n"
