"""Format numbers for output."""

from __future__ import annotations


def plural(number: int, thing: str, things: str = "") -> str:
    """Format a number with its noun: `1 line`, `2,000 lines`. `things` is an irregular plural."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def format_bytes(size: float | None) -> str | None:
    """Format bytes with a binary unit: `16 MiB`. None stays None."""
    if size is None:
        return None
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:,.4g} PiB"
