"""Can the log be read as it is? Lines that are too long, and numbers that cannot be true."""

from __future__ import annotations

from ..logs.lines import LIMIT
from .base import Answer, Check, Evidence

NAMED = 3
"""Number of values that are named."""


def long_line(evidence: Evidence) -> Answer:
    """A line is too long."""
    count = evidence.damage.long_lines
    if not count:
        return None
    lines = "1 line of the log is" if count == 1 else f"{count} lines of the log are"
    return f"{lines} longer than {LIMIT >> 10} KiB and cut there"


def odd_number(evidence: Evidence) -> Answer:
    """A number cannot be true."""
    damage = evidence.damage
    if not damage.numbers:
        return None
    more = damage.numbers - len(damage.examples[:NAMED])
    named = ", ".join(damage.examples[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"the log has numbers that cannot be true, which were left out: {named}"


CHECKS = (
    Check(
        "long-line", "The length of the log's lines.",
        "A line is longer than 64 KiB; its rest was not read, and its last value is not used.",
        "Look at the line: does a program write without line ends, or two into one file?", "warning", long_line,
    ),
    Check(
        "odd-number", "Every number of the steps and of the facts in the log.",
        "Numbers that cannot be true (a step number over 10^9; a time of 0 or below, over four months, nan or inf; "
        "a value that no float can represent) are null in the records; a step without a number is left out.",
        "Look at the line: was it damaged, or do two programs write into one file?", "warning", odd_number,
    ),
)  # fmt: skip
