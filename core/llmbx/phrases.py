"""Phrases of messages: counts, numbers, sizes and lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def plural(number: int | None, things: str, thing: str = "") -> str:
    """A count: `1 line`, `2,000 lines`. `thing` is the singular of `things`, if it has more than an s less."""
    if number is None:
        return f"an unknown number of {things}"
    return f"{number:,} {(thing or things.removesuffix('s')) if number == 1 else things}"


def format_number(value: float) -> str:
    """Format a number with its significant digits: `1,572`, `5.431`, `0.0331`, `1.2e-07`."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "not finite"
    size = abs(value)
    if value and not 1e-4 <= size < 1e15:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """A time in words: `40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    days, hours = divmod(minutes // 60, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def format_bytes(size: float) -> str:
    """A number of bytes with a decimal unit: `612 kB`, `61 MB`, `18.2 GB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB" if size < 1000 else f"{size / 1000:.1f} TB"


def listed(names: Sequence[object], most: int) -> str:
    """The first `most` names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more:,} more" if more > 0 else "")


def either(options: Iterable[object], prefix: str = "") -> str:
    """ "2, 4 or 8", each with `prefix`; "nothing" if there are no options."""
    texts = [f"{prefix}{option}" for option in options]
    if len(texts) < 2:
        return texts[0] if texts else "nothing"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"
