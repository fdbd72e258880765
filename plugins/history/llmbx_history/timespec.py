"""Parse dates and times as users type them: `2026-11-20`, `2026-11-20 14:30`, or an age (`7d`)."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from llmbx.api import UsageError

if TYPE_CHECKING:
    import sqlite3

_AGO = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*(s|min|h|d|w)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_EPOCH = re.compile(r"(?!\d{8}$)-?\d+(\.\d*)?(e[-+]?\d+)?")  # eight digits are a date
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_time(text: str, option: str, now: float | None = None, end_of_day: bool = False) -> float:
    """Return the time in epoch seconds; local time if no time zone is given.

    A date alone is the start of the day, or its end with `end_of_day`. Raises `UsageError` for
    anything else.
    """
    words = text.strip()
    ago = _AGO.fullmatch(words)
    if ago:
        return (time.time() if now is None else now) - float(ago[1]) * _SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(words)
        if end_of_day and _DAY.fullmatch(words):
            moment += timedelta(days=1)
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{option} '{text}': expected a date (2026-11-20), a date and time "
            "(2026-11-20 14:30) or an age (7d, 12h, 30min)"
        ) from None


def add_times(db: sqlite3.Connection, errors: list[UsageError] | None = None) -> None:
    """Add the collation `time`, which orders texts by the time that they name.

    That is epoch seconds, or what `parse_time` reads. Errors of SQLite's callbacks are lost: they
    are added to `errors`, and the texts are equal.
    """

    def compare(left: str, right: str) -> int:
        try:
            first, second = _seconds(left), _seconds(right)
        except UsageError as error:
            if errors is not None:
                errors.append(error)
            return 0
        return (first > second) - (first < second)

    db.create_collation("time", compare)


def _seconds(text: str) -> float:
    return float(text) if _EPOCH.fullmatch(text) else parse_time(text, "--where")
