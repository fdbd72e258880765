"""Reading quantities that people type."""

from __future__ import annotations

from .errors import UsageError


def fraction(text: str, option: str) -> float:
    """`5%` or `0.05` as 0.05. Raises `UsageError` for anything else, and for a negative number."""
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%")) / (100 if percent else 1)
    except ValueError:
        raise UsageError(f"{option} {text!r}: expected a percentage such as 5%") from None
    if not 0 <= value < 10:
        raise UsageError(f"{option} {text!r}: expected a percentage such as 5%")
    return value
