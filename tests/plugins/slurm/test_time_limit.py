"""Parsing of Slurm's time limits."""

from __future__ import annotations

import pytest

from llmbx_slurm.time_limit import minutes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90), ("90:00", 90), ("90:30", 91), ("1:30:00", 90), ("1:30:01", 91), ("1-0", 1440), ("1-00:00:00", 1440),
        ("2-3:4", 2 * 1440 + 3 * 60 + 4), ("2-3:4:5", 2 * 1440 + 3 * 60 + 5), (" 30 ", 30),
        ("UNLIMITED", None), ("infinite", None), ("0", None), ("00:00:00", None),
    ],
)  # fmt: skip
def test_every_form_of_a_time_limit(text: str, expected: int | None) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "1h", "1:2:3:4", "1-", "-5", "1-2-3", "1.5", "²"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected minutes, M:S, H:M:S, D-H"):
        minutes(text)
