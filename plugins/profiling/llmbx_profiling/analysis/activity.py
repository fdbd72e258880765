"""Reading what the GPUs did: kernels, copies and memory sets, sorted apart by process, device and kind."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import sub

from . import kernels
from .database import PROCESS, Database

Selection = tuple[bool, tuple[int, ...]] | None
"""Only these lanes of a file (True), all but these (False), or all (None)."""

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPY_PEER = 10
"""`copyKind` of a copy between two GPUs (CUPTI_ACTIVITY_MEMCPY_KIND_PTOP)."""

_OTHERS = (
    ("CUPTI_ACTIVITY_KIND_MEMCPY", kernels.COPY),
    ("CUPTI_ACTIVITY_KIND_MEMSET", kernels.SET),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", kernels.GRAPH),
)


class Spans:
    """Intervals in nanoseconds of the profile's own clock."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")

    def extend(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Add many at once."""
        self.starts += array("q", starts)
        self.ends += array("q", ends)


class Tally:
    """Calls of one kernel: how many, the sum of their lengths, and the longest (ns)."""

    __slots__ = ("calls", "longest", "total")

    def __init__(self) -> None:
        self.calls = self.total = self.longest = 0

    def add(self, lengths: Sequence[int]) -> None:
        """Count these calls, too."""
        if lengths:
            self.calls += len(lengths)
            self.total += sum(lengths)
            self.longest = max(self.longest, max(lengths))


class Lane:
    """One device as one process used it: what it computed, what else it did (copies), and its communication by name."""

    __slots__ = ("communication", "compute", "device", "other", "process", "tallies")

    def __init__(self, process: int, device: int) -> None:
        self.process = process
        self.device = device
        self.compute = Spans()
        self.other = Spans()
        self.communication: dict[int, Spans] = {}
        self.tallies: dict[int, Tally] = {}

    @property
    def spans(self) -> list[Spans]:
        """Everything the device did."""
        return [found for found in (self.compute, self.other, *self.communication.values()) if found.starts]


class Activity:
    """All lanes of one profile, and the names of their kernels by id (ids below zero are llmbx's own)."""

    def __init__(self, lanes: dict[int, Lane], names: dict[int, str]) -> None:
        self.lanes = lanes
        self.names = names


def read(database: Database, selection: Selection = None) -> Activity:
    """The GPU activity of a profile (or of some of its lanes), in one pass over each table; empty without any."""
    lanes: dict[int, Lane] = {}
    names: dict[int, str] = {}
    if _KERNEL in database.tables:
        column = name_column(database)
        names = _names(database, column)
        _collect(database, _KERNEL, column, selection, _Sorter(lanes, names))
    for number, (table, text) in enumerate(_OTHERS, 2):
        if table in database.tables and {"start", "end"} <= database.columns(table):
            names[-number] = text
            name = str(-number)
            if "copyKind" in database.columns(table):
                names[-1] = kernels.PEER_COPY
                name = f"CASE copyKind WHEN {_COPY_PEER} THEN -1 ELSE -{number} END"
            _collect(database, table, name, selection, _Sorter(lanes, names))
    return Activity(lanes, names)


def name_column(database: Database) -> str:
    """The column that tells kernels apart best: the demangled name, else the short one (old and cut-down exports)."""
    columns = database.columns(_KERNEL)
    for column in ("demangledName", "shortName", "mangledName", "name"):
        if column in columns:
            first = {i for (i,) in database.rows(f"SELECT {column} FROM {_KERNEL} LIMIT 100")}
            if first and first <= database.strings(first).keys():
                return column
    return "shortName" if "shortName" in columns else "0"


def lane_expression(database: Database, table: str) -> str:
    """SQL for a lane's key: a serialised process id has its low 24 bits free for the device's number."""
    columns = database.columns(table)
    device = "deviceId" if "deviceId" in columns else "0"
    return f"(ifnull(globalPid, 0) | {device})" if "globalPid" in columns else device


def _names(database: Database, column: str) -> dict[int, str]:
    """Every kernel's name by id. Names are few and kernels many: the strings are searched, not the kernels."""
    if "StringIds" not in database.tables or column == "0":
        return {}
    return dict(database.rows("SELECT id, value FROM StringIds"))


def _collect(database: Database, table: str, name: str, selection: Selection, sorter: _Sorter) -> None:
    """Sort a table's rows into lanes. A row without an end (the capture stopped in it) or a length is left out."""
    lane = lane_expression(database, table)
    where = "end > start"
    if selection is not None:
        only, some = selection
        where += f" AND {lane} {'' if only else 'NOT '}IN ({','.join(map(str, some))})"
    for starts, ends, keys, names in database.blocks(table, ("start", "end", lane, f"ifnull({name}, 0)"), where):
        if keys[0] == keys[-1] and keys.count(keys[0]) == len(keys):
            sorter.add_lane(keys[0], starts, ends, names)
        else:
            sorter.add(starts, ends, keys, names)


_Column = Sequence[int]
_Calls = tuple[Callable[[int], None], Callable[[int], None], Callable[[int], None]]


class _Sorter:
    """Puts rows where they belong; the calls that do so are kept by lane and name, since there are millions of rows."""

    def __init__(self, lanes: dict[int, Lane], names: dict[int, str]) -> None:
        self._lanes = lanes
        self._names = names
        self._calls: dict[int, dict[int, _Calls]] = {}
        self._spans: dict[int, tuple[Spans, list[int], list[int]]] = {}
        self._tallies: list[tuple[Tally, list[int]]] = []

    def add(self, starts: _Column, ends: _Column, keys: _Column, names: _Column) -> None:
        """Sort a block of rows. Lists take single values faster than arrays do; arrays hold them in far less room."""
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

    def add_lane(self, key: int, starts: _Column, ends: _Column, names: _Column) -> None:
        """The same for a block of one lane, as the file of one rank has throughout: the bulk as whole columns."""
        lane = self._lane(key)
        self._tally(lane, names, map(sub, ends, starts))
        spans = {name: self._spans_of(lane, name) for name in set(names)}
        bulk = {name: found is lane.compute for name, found in spans.items()}
        mask = [bulk[name] for name in names]
        lane.compute.extend(list(compress(starts, mask)), list(compress(ends, mask)))
        for i in [i for i, inside in enumerate(mask) if not inside]:
            spans[names[i]].starts.append(starts[i])
            spans[names[i]].ends.append(ends[i])

    def _tally(self, lane: Lane, names: _Column, lengths: Iterable[int]) -> None:
        found: dict[int, list[int]] = {name: [] for name in set(names)}
        add_length = {name: calls.append for name, calls in found.items()}
        for name, length in zip(names, lengths, strict=True):
            add_length[name](length)
        for name, calls in found.items():
            lane.tallies.setdefault(name, Tally()).add(calls)

    def _new(self, key: int, name: int) -> _Calls:
        lane = self._lane(key)
        spans = self._spans_of(lane, name)
        _, starts, ends = self._spans.setdefault(id(spans), (spans, [], []))
        lengths: list[int] = []
        self._tallies.append((lane.tallies.setdefault(name, Tally()), lengths))
        calls = (starts.append, ends.append, lengths.append)
        self._calls.setdefault(key, {})[name] = calls
        return calls

    def _lane(self, key: int) -> Lane:
        if key not in self._lanes:
            self._lanes[key] = Lane(key & PROCESS, key & ~PROCESS)
        return self._lanes[key]

    def _spans_of(self, lane: Lane, name: int) -> Spans:
        text = self._names.get(name, "")
        if kernels.is_communication(text):
            return lane.communication.setdefault(name, Spans())
        return lane.other if text in (kernels.COPY, kernels.SET, kernels.GRAPH) else lane.compute
