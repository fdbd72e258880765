"""Format numbers, quantities and times for people: significant digits, with units."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from llmbx.api import Fact, Scalar, is_number
from llmbx.api.verbs import format_number as number

UNKNOWN = "unknown"


def short(value: float, low: float | None = None, high: float | None = None) -> str:
    """Format a number with as many decimals as its interval supports."""
    if low is None or high is None or high <= low or not all(map(math.isfinite, (value, low, high))):
        return number(value)
    decimals = max(0, min(12, 1 - math.floor(math.log10(high - low))))
    return f"{value:,.{decimals}f}"


def text(value: Scalar) -> str:
    """Format a plain value for a cell: None as `unknown`, booleans as `yes` and `no`."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if is_number(value) else str(value)


def quantity(value: Scalar, unit: str) -> str:
    """Format a value with its unit."""
    joined = "" if not unit or value is None or not is_number(value) else f" {unit}"
    return text(value) + joined


def figure(item: Fact) -> str:
    """Format a figure with its unit and, if known, its interval: `5.431 s (5.42 to 5.44)`."""
    if not is_number(item.value):
        return text(item.value)
    value = short(item.value, item.low, item.high)
    return f"{value} {item.unit}{between(item)}"


def between(item: Fact) -> str:
    """The interval of a figure in parentheses, or the empty string if it has none."""
    if item.low is None or item.high is None:
        return ""
    low, high = short(item.low, item.low, item.high), short(item.high, item.low, item.high)
    return f" ({low} to {high})"


def slug(words: str) -> str:
    """A name for anchors and files: ASCII letters, digits and dashes."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in words.lower())
    return "-".join(part for part in kept.split("-") if part) or "part"


def started(seconds: float) -> str:
    """Format a time in seconds since the epoch: `2026-11-23 19:10:42 UTC`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
