"""Numbers as people write them."""

from __future__ import annotations


def many(number: int, thing: str, things: str = "") -> str:
    """`1 line`, `2,000 lines`; `things` where an s does not do."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def human(size: float | None) -> str | None:
    """Bytes in the largest fitting binary unit: `16 MiB`; None stays None."""
    if size is None:
        return None
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:,.4g} PiB"
