"""Moments as people write them: `2026-11-20`, `2026-11-20 14:30`, or how long ago (`7d`, `12h`, `30min`)."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from ..errors import UsageError

_AGO = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*(s|min|h|d|w)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def moment(text: str, option: str, now: float | None = None, end_of_day: bool = False) -> float:
    """The moment in epoch seconds, in local time where no zone is given; a day alone is its beginning, or its end.

    Raises `UsageError` with what would be right.
    """
    words = text.strip()
    ago = _AGO.fullmatch(words)
    if ago:
        return (time.time() if now is None else now) - float(ago[1]) * _SECONDS[ago[2]]
    try:
        found = datetime.fromisoformat(words)
        if end_of_day and _DAY.fullmatch(words):
            found += timedelta(days=1)
        return found.timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{option} '{text}': expected a day (2026-11-20), a time (2026-11-20 14:30) "
            "or how long ago (7d, 12h, 30min)"
        ) from None
