"""Reading what the GPUs did: kernels, copies and memory sets, sorted apart by process, device and kind."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import compress

from . import kernels
from .database import PROCESS, Database

COMPUTE, COMMUNICATION, OTHER = range(3)

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
    """Intervals with a name's id each, in nanoseconds of the profile's own clock."""

    __slots__ = ("ends", "names", "starts")

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")
        self.names = array("q")

    def __len__(self) -> int:
        return len(self.starts)

    def extend(self, starts: Iterable[int], ends: Iterable[int], names: Iterable[int]) -> None:
        """Add many at once."""
        self.starts.extend(starts)
        self.ends.extend(ends)
        self.names.extend(names)

    def order(self) -> None:
        """Put them in the order of their starts, where the file does not have them so already."""
        if self.starts == array("q", sorted(self.starts)):
            return
        rows = sorted(zip(self.starts, self.ends, self.names, strict=True))
        self.starts, self.ends, self.names = (array("q", column) for column in zip(*rows, strict=True))


class Lane:
    """One device as one process used it: what it computed, communicated and did else, in the order of the file."""

    __slots__ = ("device", "kinds", "process")

    def __init__(self, process: int, device: int) -> None:
        self.process = process
        self.device = device
        self.kinds = (Spans(), Spans(), Spans())


class Activity:
    """All lanes of one profile, and the names that their spans refer to (ids below zero are llmbx's own)."""

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
        kind = {i: COMMUNICATION if kernels.is_communication(text) else COMPUTE for i, text in names.items()}
        _collect(database, _KERNEL, column, selection, lanes, lambda name: kind.get(name, COMPUTE))
    for number, (table, text) in enumerate(_OTHERS, 2):
        if table in database.tables and {"start", "end"} <= database.columns(table):
            names[-number] = text
            name = str(-number)
            if "copyKind" in database.columns(table):
                names[-1] = kernels.PEER_COPY
                name = f"CASE copyKind WHEN {_COPY_PEER} THEN -1 ELSE -{number} END"
            _collect(database, table, name, selection, lanes, lambda name: COMMUNICATION if name == -1 else OTHER)
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


def _collect(
    database: Database, table: str, name: str, selection: Selection, lanes: dict[int, Lane], kind: Callable[[int], int]
) -> None:
    """Sort a table's rows into lanes. A row without an end (the capture stopped in it) is left out."""
    lane = lane_expression(database, table)
    where = "end >= start"
    if selection is not None:
        only, some = selection
        where += f" AND {lane} {'' if only else 'NOT '}IN ({','.join(map(str, some))})"
    sorter = _Sorter(lanes, kind)
    for starts, ends, keys, names in database.blocks(table, ("start", "end", lane, f"ifnull({name}, 0)"), where):
        if keys[0] == keys[-1] and keys.count(keys[0]) == len(keys):
            sorter.add_lane(keys[0], starts, ends, names)
        else:
            sorter.add(starts, ends, keys, names)


class _Sorter:
    """Puts rows where they belong; the calls that do so are kept by lane and name, since there are millions of rows."""

    def __init__(self, lanes: dict[int, Lane], kind: Callable[[int], int]) -> None:
        self._lanes = lanes
        self._kind = kind
        self._calls: dict[int, dict[int, tuple[Callable[[int], None], ...]]] = {}
        self._held: dict[tuple[int, int], tuple[list[int], ...]] = {}

    def add(self, starts: Sequence[int], ends: Sequence[int], keys: Sequence[int], names: Sequence[int]) -> None:
        """Sort a block of rows. Lists take single values faster than arrays do; arrays hold them in far less room."""
        calls = self._calls
        for start, end, key, name in zip(starts, ends, keys, names, strict=True):
            try:
                add_start, add_end, add_name = calls[key][name]
            except KeyError:
                add_start, add_end, add_name = self._new(key, name)
            add_start(start)
            add_end(end)
            add_name(name)
        for (key, kind), held in self._held.items():
            _lane(self._lanes, key).kinds[kind].extend(*held)
            for values in held:
                values.clear()

    def add_lane(self, key: int, starts: Sequence[int], ends: Sequence[int], names: Sequence[int]) -> None:
        """The same for a block of one lane, as the file of one rank has throughout: whole columns at a time."""
        lane = _lane(self._lanes, key)
        kinds = {name: self._kind(name) for name in set(names)}
        for number in set(kinds.values()):
            mask = [kinds[name] == number for name in names]
            lane.kinds[number].extend(compress(starts, mask), compress(ends, mask), compress(names, mask))

    def _new(self, key: int, name: int) -> tuple[Callable[[int], None], ...]:
        held = self._held.setdefault((key, self._kind(name)), ([], [], []))
        calls = tuple(values.append for values in held)
        self._calls.setdefault(key, {})[name] = calls
        return calls


def _lane(lanes: dict[int, Lane], key: int) -> Lane:
    if key not in lanes:
        lanes[key] = Lane(key & PROCESS, key & ~PROCESS)
    return lanes[key]
