"""Sorting rows into lanes without any library: the engine that is always there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import sub

from .lanes import Lane, Shelf, Spans, Tally

_Column = Sequence[int]
_Calls = tuple[Callable[[int], None], Callable[[int], None], Callable[[int], None]]


class Sorter:
    """Puts rows where they belong; the calls that do so are kept by lane and name, since there are millions of rows."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._calls: dict[int, dict[int, _Calls]] = {}
        self._spans: dict[int, tuple[Spans, list[int], list[int]]] = {}
        self._tallies: list[tuple[Tally, list[int]]] = []

    def add(self, starts: _Column, ends: _Column, keys: _Column, names: _Column) -> None:
        """Sort a block of rows: start, end, key of the lane, id of the name."""
        if keys[0] == keys[-1] and keys.count(keys[0]) == len(keys):
            self._add_lane(keys[0], starts, ends, names)
        else:
            self._add_mixed(starts, ends, keys, names)

    def finish(self) -> None:
        """All blocks have been added: here they are sorted already."""

    def _add_mixed(self, starts: _Column, ends: _Column, keys: _Column, names: _Column) -> None:
        # Lists take single values faster than arrays do; arrays hold them in far less room.
        calls = self._calls
        for start, end, key, name in zip(starts, ends, keys, names, strict=True):
            try:
                add_start, add_end, add_length = calls[key][name]
            except KeyError:
                add_start, add_end, add_length = self._new(key, name)
            add_start(start)
            add_end(end)
            add_length(end - start)
        for spans, *held in self._spans.values():
            spans.extend(*held)
            for values in held:
                values.clear()
        for tally, lengths in self._tallies:
            tally.add(lengths)
            lengths.clear()

    def _add_lane(self, key: int, starts: _Column, ends: _Column, names: _Column) -> None:
        """A block of one lane, as the file of one rank has throughout: the bulk as whole columns."""
        lane = self._shelf.lane(key)
        self._tally(lane, names, map(sub, ends, starts))
        spans = {name: self._shelf.spans(lane, name) for name in set(names)}
        bulk = {name: found is lane.compute for name, found in spans.items()}
        mask = [bulk[name] for name in names]
        lane.compute.extend(list(compress(starts, mask)), list(compress(ends, mask)))
        for i in [i for i, inside in enumerate(mask) if not inside]:
            spans[names[i]].extend((starts[i],), (ends[i],))

    def _tally(self, lane: Lane, names: _Column, lengths: Iterable[int]) -> None:
        found: dict[int, list[int]] = {name: [] for name in set(names)}
        add_length = {name: calls.append for name, calls in found.items()}
        for name, length in zip(names, lengths, strict=True):
            add_length[name](length)
        for name, calls in found.items():
            lane.tallies.setdefault(name, Tally()).add(calls)

    def _new(self, key: int, name: int) -> _Calls:
        lane = self._shelf.lane(key)
        spans = self._shelf.spans(lane, name)
        _, starts, ends = self._spans.setdefault(id(spans), (spans, [], []))
        lengths: list[int] = []
        self._tallies.append((lane.tallies.setdefault(name, Tally()), lengths))
        calls = (starts.append, ends.append, lengths.append)
        self._calls.setdefault(key, {})[name] = calls
        return calls
