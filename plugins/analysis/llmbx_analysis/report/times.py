"""Format points in time."""

from __future__ import annotations

from datetime import UTC, datetime


def started(seconds: float) -> str:
    """Format a time in seconds since the epoch: `2026-11-23 19:10:42 UTC`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
