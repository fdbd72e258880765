"""Convert numbers that a log prints, without an exception.

A damaged or hostile log has numbers of 5,000 digits and times of 1e400 seconds. A number that is too large to convert
becomes a value beyond every limit, so that it is reported with all that cannot be true (`plugins.plausible`).
"""

from __future__ import annotations

import math
import sys

BEYOND = sys.float_info.max
"""What `real` returns for a printed number that no float can represent."""

DIGITS = 18
"""Maximum number of digits that `whole` converts."""

HUGE = 1_000_000_000_000_000_000
"""What `whole` returns for a number of more digits."""

LARGEST_STEP = 10**9
"""Largest number of a step."""


def real(text: str) -> float:
    """Convert a printed number; nan and inf as printed. One too large for a float is ±`BEYOND`.

    Raises `ValueError` for text that is not a number.
    """
    value = float(text)
    if math.isinf(value) and text.strip(" +-")[:1].isdigit():
        return math.copysign(BEYOND, value)
    return value


def whole(text: str) -> int:
    """Convert printed digits, with an optional sign. A number of more than 18 digits is ±10^18, beyond every limit.

    Raises `ValueError` for other text.
    """
    digits = text.strip().lstrip("+-").lstrip("0")
    if len(digits) > DIGITS and digits.isdigit():
        return -HUGE if text.strip().startswith("-") else HUGE
    return int(text)


def rounded(value: float) -> int:
    """Round a number to an integer; nan and inf are 10^18, beyond every limit."""
    if math.isfinite(value):
        return round(value)
    return HUGE
