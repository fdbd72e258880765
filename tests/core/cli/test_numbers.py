"""Numbers that options reject."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from llmbx.cli import run
from llmbx_containers import cli as image
from llmbx_sweep import cli as sweep


@pytest.mark.parametrize("value", ["-5", "0", "nan", "inf", "soon"])
@pytest.mark.parametrize(
    ("command", "option"),
    [(run.command, "--stall-timeout"), (sweep.command, "--stall-timeout"), (image.prepare, "--timeout")],
)
def test_a_time_is_finite_and_above_0(command: object, option: str, value: str) -> None:
    done = CliRunner().invoke(command, ["line", option, value])  # type: ignore[arg-type]
    assert done.exit_code == 2 and f"Invalid value for '{option}'" in done.output


@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_a_budget_is_not_negative(value: str) -> None:
    done = CliRunner().invoke(sweep.command, ["line", "--max-gpu-hours", value])
    assert done.exit_code == 2 and "is not in the range x>=0" in done.output
