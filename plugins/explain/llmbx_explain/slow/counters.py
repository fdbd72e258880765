"""The samples of a rank, its GPU and its node, as what was counted in each step of that rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmbx_telemetry.samples import Samples

from .clocks import Clocks, Floats


@dataclass(frozen=True)
class Counters:
    """Reads the samples of all nodes at the times of the steps; a row for each rank."""

    clocks: Clocks
    segments: tuple[Samples | None, ...]
    gpus: tuple[str | None, ...]

    def of_rank(self, measure: str) -> Floats:
        """Return by how much a counter of each rank's process grew in each step; NaN: unknown."""
        names = [f"rank{rank}.{measure}" for rank in self.clocks.ranks]
        return self._increases(names)

    def of_gpu(self, measure: str) -> Floats:
        """Return by how much a counter of each rank's GPU grew in each step."""
        return self._increases([f"{gpu}.{measure}" for gpu in self.gpus])

    def of_node(self, measures: Sequence[str]) -> Floats:
        """Return by how much counters of each rank's node grew in each step, in all."""
        return np.asarray(sum(self._increases([name] * len(self.clocks.ranks)) for name in measures))

    def level_of_rank(self, measure: str) -> Floats:
        """Return the last value of a column of each rank's process in each step."""
        return self._levels([f"rank{rank}.{measure}" for rank in self.clocks.ranks])

    def level_of_gpu(self, measure: str) -> Floats:
        """Return the last value of a column of each rank's GPU in each step."""
        return self._levels([f"{gpu}.{measure}" for gpu in self.gpus])

    def samples_of_rank(self, row: int, measure: str) -> Floats:
        """Return the samples of a column of a rank's process that were taken during the steps."""
        samples = self.segments[row]
        if samples is None:
            return np.empty(0)
        times = self._times(row, samples)
        values = samples.get(f"rank{self.clocks.ranks[row]}.{measure}")
        inside = (times >= self.clocks.start[row, 0]) & (times <= self.clocks.end(row))
        return np.asarray(values[inside & ~np.isnan(values)])

    def columns(self, kind: str, measure: str) -> list[str]:
        """Return the names of columns like `disk.X.busy` on any node."""
        names = {
            name
            for samples in {id(each): each for each in self.segments if each is not None}.values()
            for name in samples.columns
            if name.startswith(kind + ".") and name.endswith("." + measure)
        }
        return sorted(names)

    def fact(self, row: int, thing: str, name: str) -> object:
        """Return a fact of an object on a rank's node; None if it is unknown."""
        samples = self.segments[row]
        return None if samples is None else samples.facts.get(thing, {}).get(name)

    def _times(self, row: int, samples: Samples) -> Floats:
        """The samples' times by the rank's monotonic clock."""
        if samples.boot_id and samples.boot_id == self.clocks.boots[row]:
            return samples.monotonic
        return np.asarray(samples.time - self.clocks.wall[row])

    def _bounds(self, row: int) -> Floats:
        return np.append(self.clocks.start[row], self.clocks.end(row))

    def _increases(self, names: Sequence[str]) -> Floats:
        rows = [self._increase(row, name) for row, name in enumerate(names)]
        return np.array(rows)

    def _increase(self, row: int, name: str) -> Floats:
        samples = self.segments[row]
        values = None if samples is None else samples.columns.get(name)
        unknown = np.full(len(self.clocks.step), np.nan)
        if samples is None or values is None:
            return unknown
        known = ~np.isnan(values)
        if known.sum() < 2:
            return unknown
        steps = np.diff(values[known])
        total = np.concatenate(([0.0], np.cumsum(np.where(steps < 0, 0.0, steps))))
        return self._shared_out(row, self._times(row, samples)[known], total)

    def _shared_out(self, row: int, times: Floats, total: Floats) -> Floats:
        """Share out what was counted between two samples over the steps, by how slow they were.

        A sample is taken once a second, and a step may take less.
        """
        bounds = self._bounds(row)
        weight = np.concatenate(([0.0], np.cumsum(self.clocks.slowness[row])))
        inside = (times > bounds[0]) & (times < bounds[-1])
        places = np.interp(times[inside], bounds, weight)
        first, last = np.interp(bounds[[0, -1]], times, total)
        counted = np.concatenate(([first], total[inside], [last]))
        return np.diff(np.interp(weight, np.concatenate(([0.0], places, [weight[-1]])), counted))

    def _levels(self, names: Sequence[str]) -> Floats:
        return np.array([self._level(row, name) for row, name in enumerate(names)])

    def _level(self, row: int, name: str) -> Floats:
        samples = self.segments[row]
        values = None if samples is None else samples.columns.get(name)
        if samples is None or values is None:
            return np.full(len(self.clocks.step), np.nan)
        middle = (self._bounds(row)[:-1] + self._bounds(row)[1:]) / 2
        places = np.searchsorted(self._times(row, samples), middle, side="right") - 1
        return np.where(places < 0, np.nan, values[np.maximum(places, 0)])
