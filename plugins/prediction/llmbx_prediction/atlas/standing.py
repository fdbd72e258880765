"""Where a figure stands among published ones, and how far published ones of the same hardware are apart."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from llmbx.api import Value

from .row import Row

FEW = 3
"""Below this number of published figures there is no percentile."""


class Standing(Value, frozen=True):
    """A figure among `among` published ones of the same model, GPU type, dtype and task.

    `percentile` is the share of published tokens/s per GPU that are lower (half of equal ones), 0 to 100; None if there
    are fewer than three.
    """

    tokens_per_s_per_gpu: float
    percentile: float | None
    among: int
    slowest: float | None
    median: float | None
    fastest: float | None
    of: str


class Spread(Value, frozen=True):
    """Step times of several organisations on the same GPUs with the same benchmark and batch size.

    `above_fastest_percent` is the median over the fastest, minus 1.
    """

    source: str
    model: str
    task: str
    gpu_type: str
    gpus: int
    gbs: int
    organizations: int
    systems: int
    fastest_s: float
    median_s: float
    slowest_s: float
    above_fastest_percent: float
    slowest_above_fastest_percent: float
    fastest_by: str


def standing(rate: float, rows: Sequence[Row], of: str) -> Standing:
    """The standing of a rate in tokens/s per GPU among the rows that have one.

    A measurement that an organization printed in two places counts once.
    """
    once = {
        (row.organization, row.release, row.gpus, row.dtype, row.gbs, f"{row.tokens_per_s_per_gpu:.3g}"): row
        for row in rows
        if row.tokens_per_s_per_gpu is not None
    }
    rates = sorted(row.tokens_per_s_per_gpu for row in once.values() if row.tokens_per_s_per_gpu is not None)
    below = sum(value < rate for value in rates) + sum(value == rate for value in rates) / 2
    return Standing(
        tokens_per_s_per_gpu=rate, percentile=100 * below / len(rates) if len(rates) >= FEW else None, among=len(rates),
        slowest=rates[0] if rates else None, median=statistics.median(rates) if rates else None,
        fastest=rates[-1] if rates else None, of=of,
    )  # fmt: skip


def spreads(rows: Sequence[Row]) -> list[Spread]:
    """The spread of every cell that at least two organisations measured, with most organisations first."""
    cells: dict[tuple[str, str, str, str, int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row.stack == "mlperf" and row.step_time_s is not None and row.gbs:
            cells[row.source, row.model, row.task, row.gpu_type, row.gpus, row.gbs].append(row)
    measured = [_spread(key, cell) for key, cell in cells.items() if len({row.organization for row in cell}) > 1]
    return sorted(measured, key=lambda spread: (-spread.organizations, spread.model, spread.gpu_type, spread.gpus))


def _spread(key: tuple[str, str, str, str, int, int], cell: Sequence[Row]) -> Spread:
    ordered = sorted(cell, key=lambda row: row.step_time_s or 0.0)
    times = [row.step_time_s or 0.0 for row in ordered]
    middle = statistics.median(times)
    source, model, task, gpu_type, gpus, gbs = key
    return Spread(
        source=source, model=model, task=task, gpu_type=gpu_type, gpus=gpus, gbs=gbs,
        organizations=len({row.organization for row in cell}), systems=len(cell), fastest_s=times[0], median_s=middle,
        slowest_s=times[-1], above_fastest_percent=100 * (middle / times[0] - 1),
        slowest_above_fastest_percent=100 * (times[-1] / times[0] - 1), fastest_by=ordered[0].organization,
    )  # fmt: skip
