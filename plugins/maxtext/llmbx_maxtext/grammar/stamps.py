"""The time in the prefix of a line, as absl prints it: month and day, and the time of day in microseconds."""

from __future__ import annotations

import calendar

YEAR = 2024
"""A leap year, so that every day exists; only differences of times have a meaning."""


def seconds_of(stamp: str) -> float | None:
    """Return `1121 07:20:25.853725` in seconds; None for other text."""
    try:
        month, day, fraction = int(stamp[:2]), int(stamp[2:4]), float("0" + stamp[13:])
        hour, minute, second = (int(part) for part in stamp[5:13].split(":"))
    except ValueError:
        return None
    return calendar.timegm((YEAR, month, day, hour, minute, second)) + fraction if 0 < month <= 12 else None
