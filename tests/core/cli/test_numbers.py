"""Numbers that options reject."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from llmbx.cli.run import command


@pytest.mark.parametrize("value", ["-5", "0", "nan", "inf", "soon"])
def test_a_time_is_finite_and_above_0(value: str) -> None:
    done = CliRunner().invoke(command, ["line", "--stall-timeout", value])
    assert done.exit_code == 2 and "Invalid value for '--stall-timeout'" in done.output
