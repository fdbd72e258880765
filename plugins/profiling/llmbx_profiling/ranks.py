"""Numbers of ranks as text."""

from __future__ import annotations

from collections.abc import Iterable


def spell(chosen: Iterable[int]) -> str:
    """Format rank numbers as ranks and ranges: 0, 1, 2, 7 becomes "0-2,7"."""
    runs: list[list[int]] = []
    for rank in sorted(set(chosen)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
