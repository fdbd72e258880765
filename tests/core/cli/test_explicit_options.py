"""Options that a repeated run does not accept are rejected in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.cli import run
from llmbx.errors import LlmbxError


def refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: object, *arguments: str) -> str:
    """The error message of the command in an install without runs."""
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    done = CliRunner().invoke(command, arguments)  # type: ignore[arg-type]
    assert isinstance(done.exception, LlmbxError), done.output
    return str(done.exception)


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (("--steps", "7", "--set", "rate=0.5", "--runtime", "host", "--tag", "z"), "--steps, --set, --runtime, --tag"),
        (("-s", "8b"), "--size"),
        (("-p",), "--profile"),
        (("--no-preflight",), "--preflight"),
    ],
)
def test_options_that_change_a_repeated_run_are_rejected(
    typed: tuple[str, ...], named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = refusal(monkeypatch, tmp_path, run.command, "--from", "x", *typed)
    assert said == f"--from cannot be combined with {named}"


def test_options_that_do_not_change_the_run_are_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    typed = ("--force", "--accept-image-change", "--repeat", "2", "--offline", "--detach", "--dry-run")
    assert refusal(monkeypatch, tmp_path, run.command, "--from", "x", *typed).startswith("no run 'x'")
