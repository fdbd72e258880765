"""Options that `llmbx sweep` rejects in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.errors import LlmbxError
from llmbx_sweep.cli import command

Refusal = Callable[..., str]


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Refusal:
    """`refusal("a.toml")`: the error message of the command in an install without runs."""
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")

    def invoke(*arguments: str) -> str:
        done = CliRunner().invoke(command, arguments)
        assert isinstance(done.exception, LlmbxError), done.output
        return str(done.exception)

    return invoke


def test_a_plan_file_and_a_resumed_sweep_accept_no_other_options(refusal: Refusal) -> None:
    said = refusal("a.toml", "--retries", "0", "--no-preflight", "--repeats", "2")
    assert said == "--repeats, --retries, --preflight cannot be combined with a plan file; set them in a.toml"
    assert refusal("a.toml").startswith("a.toml: ")
    assert "cannot be combined with a workload" in refusal("--show", "x", "--retries", "0")
    assert "no sweep" in refusal("--show", "x", "--offline")


@pytest.mark.parametrize("value", ["-5", "0", "nan", "inf", "soon"])
def test_a_time_is_finite_and_above_0(value: str) -> None:
    done = CliRunner().invoke(command, ["line", "--stall-timeout", value])
    assert done.exit_code == 2 and "Invalid value for '--stall-timeout'" in done.output


@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_a_budget_is_not_negative(value: str) -> None:
    done = CliRunner().invoke(command, ["line", "--max-gpu-hours", value])
    assert done.exit_code == 2 and "is not in the range x>=0" in done.output
