"""Reading what the GPUs did: kernels, copies and memory sets, sorted apart by process, device and kind."""

from __future__ import annotations

from . import kernels
from .database import Database
from .lanes import Shelf
from .sorting import Sorter

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPY_PEER = 10
"""`copyKind` of a copy between two GPUs (CUPTI_ACTIVITY_MEMCPY_KIND_PTOP)."""

_OTHERS = (
    ("CUPTI_ACTIVITY_KIND_MEMCPY", kernels.COPY),
    ("CUPTI_ACTIVITY_KIND_MEMSET", kernels.SET),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", kernels.GRAPH),
)


def read(database: Database) -> Shelf:
    """The GPU activity of a profile, in one pass over each table; empty without any."""
    shelf = Shelf()
    sorter = Sorter(shelf)
    if _KERNEL in database.tables:
        column = name_column(database)
        shelf.names.update(_names(database, column))
        _collect(database, _KERNEL, column, sorter)
    for number, (table, text) in enumerate(_OTHERS, 2):
        if table in database.tables and {"start", "end"} <= database.columns(table):
            shelf.names[-number] = text
            name = str(-number)
            if "copyKind" in database.columns(table):
                shelf.names[-1] = kernels.PEER_COPY
                name = f"CASE copyKind WHEN {_COPY_PEER} THEN -1 ELSE -{number} END"
            _collect(database, table, name, sorter)
    sorter.finish()
    return shelf


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


def _collect(database: Database, table: str, name: str, sorter: Sorter) -> None:
    """Sort a table's rows into lanes. A row without an end (the capture stopped in it) or a length is left out."""
    lane = lane_expression(database, table)
    for starts, ends, keys, names in database.blocks(
        table, ("start", "end", lane, f"ifnull({name}, 0)"), "end > start"
    ):
        sorter.add(starts, ends, keys, names)
