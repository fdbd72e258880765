"""Sorting the rows of a profile into lanes, as whole columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .intervals import Numbers
from .lanes import Lane, Shelf, Tally


class Sorter:
    """Sorts blocks of rows into the lanes of a shelf, once all of them are there."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._parts: dict[int, list[Numbers]] = {}

    def add(self, starts: Sequence[int], ends: Sequence[int], keys: Sequence[int], names: Sequence[int]) -> None:
        """Add a block of rows: start, end, key of the lane, id of the name."""
        rows, lanes = np.array((starts, ends, names), np.int64), np.array(keys, np.int64)
        for key in np.unique(lanes).tolist():
            self._parts.setdefault(key, []).append(rows[:, lanes == key])

    def finish(self) -> None:
        """Put everything on its lane."""
        for key in list(self._parts):
            self._place(self._shelf.lane(key), np.concatenate(self._parts.pop(key), axis=1))

    def _place(self, lane: Lane, rows: Numbers) -> None:
        known, which = np.unique(rows[2], return_inverse=True)
        by_name = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[by_name], np.arange(len(known) + 1))
        bulk = np.ones(len(which), bool)
        for i, name in enumerate(known.tolist()):
            mine = by_name[bounds[i] : bounds[i + 1]]
            _tally(lane, name, rows[1][mine] - rows[0][mine])
            spans = self._shelf.spans(lane, name)
            if spans is not lane.compute:
                bulk[mine] = False
                spans.extend(rows[0][mine].tolist(), rows[1][mine].tolist())
        lane.compute.starts, lane.compute.ends = rows[0][bulk], rows[1][bulk]


def _tally(lane: Lane, name: int, lengths: Numbers) -> None:
    tally = lane.tallies.setdefault(name, Tally())
    tally.calls += len(lengths)
    tally.total += int(lengths.sum())
    tally.longest = max(tally.longest, int(lengths.max()))
