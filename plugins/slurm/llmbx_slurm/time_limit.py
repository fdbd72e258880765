"""Parse time limits in Slurm's formats (sbatch(1), `--time`)."""

from __future__ import annotations

import re

FORMS = "minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED"
"""The supported formats, for messages."""

_ENDLESS = ("unlimited", "infinite", "-1")
_TIME = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<parts>\d{1,9}(?::\d{1,9}){0,2})", re.ASCII)


def minutes(text: str) -> int | None:
    """A time limit in minutes, rounded up like in Slurm; None for no limit (`UNLIMITED` or 0).

    Raises `ValueError` for an invalid format.
    """
    total = seconds(text)
    return None if total is None else -(-total // 60)


def seconds(text: str) -> int | None:
    """A time in seconds; None for no limit (`UNLIMITED` or 0).

    Raises `ValueError` for an invalid format.
    """
    if text.strip().lower() in _ENDLESS:
        return None
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected {FORMS}")
    parts = [int(part) for part in match["parts"].split(":")]
    if match["days"] is not None:
        days, (hours, mins, secs) = int(match["days"]), [*parts, 0, 0][:3]
    else:
        # Without days, a lone number is minutes, and a pair is minutes and seconds.
        days, (hours, mins, secs) = 0, parts if len(parts) == 3 else [0, *parts, 0][:3]
    return ((days * 24 + hours) * 60 + mins) * 60 + secs or None
