"""Read the GPU activity of a profile: kernels, copies and memory sets, grouped by process, device and kind."""

from __future__ import annotations

from . import kernels
from .database import Database
from .lanes import LaneSet
from .sorting import Sorter

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPY_PEER = 10
"""`copyKind` of a copy between two GPUs (CUPTI_ACTIVITY_MEMCPY_KIND_PTOP)."""

_NOT_TIMES = "typeof(start) NOT IN ('integer', 'null') OR typeof(end) NOT IN ('integer', 'null')"
"""Rows that `end > start` would drop although they are damaged; the reader of blocks refuses them."""

_OTHERS = (
    ("CUPTI_ACTIVITY_KIND_MEMCPY", kernels.COPY),
    ("CUPTI_ACTIVITY_KIND_MEMSET", kernels.SET),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", kernels.GRAPH),
)


def read(database: Database) -> LaneSet:
    """Read the GPU activity in one pass over each table; the result is empty if there is none."""
    lane_set = LaneSet()
    sorter = Sorter(lane_set)
    if _KERNEL in database.tables:
        column = name_column(database)
        lane_set.names.update(_names(database, column))
        _collect(database, _KERNEL, column, sorter)
    for number, (table, text) in enumerate(_OTHERS, 2):
        if table in database.tables and {"start", "end"} <= database.columns(table):
            lane_set.names[-number] = text
            name = str(-number)
            if "copyKind" in database.columns(table):
                lane_set.names[-1] = kernels.PEER_COPY
                name = f"CASE copyKind WHEN {_COPY_PEER} THEN -1 ELSE -{number} END"
            _collect(database, table, name, sorter)
    sorter.finish()
    return lane_set


def name_column(database: Database) -> str:
    """Return the most specific name column: the demangled name, or the short one in old and reduced exports."""
    columns = database.columns(_KERNEL)
    for column in ("demangledName", "shortName", "mangledName", "name"):
        if column in columns:
            first = {i for (i,) in database.rows(f"SELECT ifnull({column}, -1) FROM {_KERNEL} LIMIT 100", tuple[int])}
            if first and first <= database.strings(first).keys():
                return column
    return "shortName" if "shortName" in columns else "0"


def lane_expression(database: Database, table: str) -> str:
    """Return SQL for a lane's key: the serialized process id, with the device number in its low 24 bits."""
    columns = database.columns(table)
    device = "deviceId" if "deviceId" in columns else "0"
    return f"(ifnull(globalPid, 0) | {device})" if "globalPid" in columns else device


def _names(database: Database, column: str) -> dict[int, str]:
    """Return all strings by id. There are few strings and many kernels, so the kernels are not searched for ids."""
    if "StringIds" not in database.tables or column == "0":
        return {}
    return dict(database.rows("SELECT id, value FROM StringIds", tuple[int, str]))


def _collect(database: Database, table: str, name: str, sorter: Sorter) -> None:
    """Sort a table's rows into lanes. Rows of length 0 or without an end (the capture stopped before) are skipped."""
    lane = lane_expression(database, table)
    columns = ("start", "end", lane, f"ifnull({name}, 0)")
    for starts, ends, keys, names in database.blocks(table, columns, f"(end > start OR {_NOT_TIMES})"):
        sorter.add(starts, ends, keys, names)
