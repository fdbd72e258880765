"""Format numbers for output."""

from __future__ import annotations


def binary_bytes(size: float | None) -> str | None:
    """Format bytes with a binary unit: `16 MiB`. None stays None."""
    if size is None:
        return None
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:,.4g} PiB"
