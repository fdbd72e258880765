"""The outcome of a comparison of two sides of runs, as a plugin reports it to core."""

from __future__ import annotations

from typing import Any

from .base import Value


class ComparisonOutcome(Value, frozen=True):
    """The verdict on side B of two sides of runs."""

    verdict: str
    """One or two words: equivalent, slower …"""
    exit_code: int
    """0 if B is not slower, 3 if it is, 5 if no verdict can be given."""
    text: str
    """The comparison for the terminal."""
    data: dict[str, Any] = {}
    """The comparison as JSON values."""
