"""Sort the rows of a profile into lanes, as numpy columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .intervals import Numbers
from .lanes import CallStats, Lane, LaneSet


class Sorter:
    """Sorts blocks of rows into the lanes of a lane set when all blocks have been added."""

    def __init__(self, lane_set: LaneSet) -> None:
        self._lane_set = lane_set
        self._parts: dict[int, list[Numbers]] = {}

    def add(self, starts: Sequence[int], ends: Sequence[int], keys: Sequence[int], names: Sequence[int]) -> None:
        """Add a block of rows: start, end, lane key, name id."""
        rows, lanes = np.array((starts, ends, names), np.int64), np.array(keys, np.int64)
        for key in np.unique(lanes).tolist():
            self._parts.setdefault(key, []).append(rows[:, lanes == key])

    def finish(self) -> None:
        """Store all rows in their lanes."""
        for key in list(self._parts):
            self._place(self._lane_set.lane(key), np.concatenate(self._parts.pop(key), axis=1))

    def _place(self, lane: Lane, rows: Numbers) -> None:
        names, which = np.unique(rows[2], return_inverse=True)
        by_name = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[by_name], np.arange(len(names) + 1))
        is_compute = np.ones(len(which), bool)
        for i, name in enumerate(names.tolist()):
            mine = by_name[bounds[i] : bounds[i + 1]]
            _add_calls(lane, name, rows[1][mine] - rows[0][mine])
            spans = self._lane_set.spans(lane, name)
            if spans is not lane.compute:
                is_compute[mine] = False
                spans.extend(rows[0][mine].tolist(), rows[1][mine].tolist())
        lane.compute.starts, lane.compute.ends = rows[0][is_compute], rows[1][is_compute]


def _add_calls(lane: Lane, name: int, lengths: Numbers) -> None:
    stats = lane.call_stats.setdefault(name, CallStats())
    stats.calls += len(lengths)
    stats.total += int(lengths.sum())
    stats.longest = max(stats.longest, int(lengths.max()))
