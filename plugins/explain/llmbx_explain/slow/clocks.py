"""The step clocks of all ranks side by side: where the time between two starts of a step went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from llmbx_telemetry.steps import RankSteps

Floats = NDArray[np.float64]

FASTEST, EVENLY = 0.1, 0.4
LEAST_STEPS = 6
"""Steps that are needed to tell anything."""
PHASES = ("data", "work", "outside", "wait")
"""Loading of data, the rest of a step without communication, the time until the next step, and
communication. They add up to the period, the time from one start of a step to the next."""


@dataclass(frozen=True)
class Clocks:
    """Durations in seconds, a row for each rank and a column for each step that all of them measured.

    `start` is the rank's own monotonic clock; `wall` what to add to get epoch seconds. `small` is
    communication other than the reduction of the gradients. `sees_waits` is False where
    communication is inside of `work` (GPUs, MaxText).
    """

    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    boots: tuple[str, ...]
    devices: tuple[str, ...]
    uuids: tuple[str | None, ...]
    wall: Floats
    step: NDArray[np.int64]
    start: Floats
    phases: Mapping[str, Floats]
    small: Floats
    sees_waits: bool

    @property
    def period(self) -> Floats:
        """The time from the start of each step to that of the next: the mean of the ranks."""
        return np.asarray(np.mean(sum(self.phases.values()), axis=0))

    @property
    def own(self) -> Floats:
        """What each rank did without the others: all but communication."""
        return self.phases["data"] + self.phases["work"] + self.phases["outside"]

    @property
    def shared(self) -> Floats:
        """Communication without waiting for a later rank: that of the rank that waits least."""
        return np.asarray(self.phases["wait"].min(axis=0))

    @property
    def step_s(self) -> float:
        """Mean period."""
        return float(self.period.mean())

    @cached_property
    def slowness(self) -> Floats:
        """How much of what was counted in a second is likely from each step of it, up to a factor.

        In part it is as the time in which the rank was busy, in part as what exceeds its fast steps.
        """
        fast = np.quantile(self.own, FASTEST, axis=1)[:, None]
        usual = np.median(self.own, axis=1)[:, None]
        return np.asarray(np.clip(self.own - fast, 0, usual) + EVENLY * self.own)

    def end(self, row: int) -> float:
        """Return when a rank's last step ended, by its own clock."""
        return float(self.start[row, -1] + sum(phase[row, -1] for phase in self.phases.values()))


def align(ranks: Sequence[RankSteps], first: int, last: int) -> Clocks | None:
    """Return the steps `first` to `last` of all ranks; None if too few were measured by all."""
    if not ranks:
        return None
    numbers = ranks[0].step
    for rank in ranks[1:]:
        if not np.array_equal(rank.step, numbers):
            numbers = np.intersect1d(numbers, rank.step)
    numbers = np.unique(numbers)
    places = [_places(rank.step, numbers) for rank in ranks]
    start = np.array([rank.start[place] for rank, place in zip(ranks, places, strict=True)])
    columns = {name: _column(ranks, places, name) for name in ("total", "data", "wait", "communication")}
    kept = np.flatnonzero((numbers[:-1] >= first) & (numbers[:-1] <= last))  # the last has no next
    if len(kept) < LEAST_STEPS:
        return None
    period = np.diff(start, axis=1)[:, kept]
    columns = {name: values[:, kept] for name, values in columns.items()}
    return _clocks(ranks, numbers[kept], start[:, kept], period, columns)


def _places(steps: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.intp]:
    order = np.argsort(steps, kind="stable")
    return np.asarray(order[np.searchsorted(steps[order], numbers)])


def _column(ranks: Sequence[RankSteps], places: Sequence[NDArray[np.intp]], name: str) -> Floats:
    rows = [rank.columns[name][place] for rank, place in zip(ranks, places, strict=True)]
    return np.array(rows)


def _clocks(
    ranks: Sequence[RankSteps],
    numbers: NDArray[np.int64],
    start: Floats,
    period: Floats,
    columns: Mapping[str, Floats],
) -> Clocks:
    sees_waits = not np.isnan(columns["communication"]).all()
    wait = np.nan_to_num(columns["communication" if sees_waits else "wait"])
    # on a GPU, the host loads data while the GPU works
    data = np.nan_to_num(columns["data"]) if sees_waits else np.zeros_like(wait)
    total = np.minimum(columns["total"], period)
    return Clocks(
        ranks=tuple(rank.rank for rank in ranks),
        nodes=tuple(rank.node for rank in ranks),
        boots=tuple(rank.boot_id for rank in ranks),
        devices=tuple(rank.device for rank in ranks),
        uuids=tuple(rank.gpu_uuid for rank in ranks),
        wall=np.array([rank.wall for rank in ranks]),
        step=numbers,
        start=start,
        phases={
            "data": data,
            "work": np.maximum(0, total - wait - data),
            "outside": period - total,
            "wait": wait,
        },
        small=np.maximum(0, wait - np.nan_to_num(columns["wait"])),
        sees_waits=sees_waits,
    )
