"""Read-only access to a profile exported to SQLite, with checks for the tables and columns of its version."""

from __future__ import annotations

import functools
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import quote

import msgspec

from llmbx.api import InfraError, RunFile, UsageError, convert, decode

Row = TypeVar("Row", bound=tuple[object, ...])

PROCESS = ~0xFFFFFF
"""Mask from a serialized thread id (`globalTid`) to its process id (`globalPid`)."""

_BLOCK = 50_000
"""Rows per block: few enough for the CPU cache, enough to make the overhead of a query negligible."""

_SAMPLE = 400
"""Number of rows sampled to check whether a table is sorted by a column."""

_decode = functools.partial(decode, kind=list[int])

_TABLES = ("META_DATA", "EXPORT_META_DATA", "StringIds", "CUPTI_", "NVTX_", "OSRT_", "TARGET_INFO", "ENUM_")
"""How the names of the tables of an export begin, in every version of nsys."""

_MAGIC = b"SQLite format 3\0"


class Database:
    """A read-only profile: its tables, columns and strings."""

    def __init__(self, connection: sqlite3.Connection, path: Path | RunFile) -> None:
        self.path = path
        self._connection = connection
        self._columns: dict[str, frozenset[str]] = {}
        self._samples: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
        self._has_json = _has_json(connection)
        self.tables = frozenset(
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        )

    def rows(self, sql: str, row: type[Row], values: tuple[object, ...] = ()) -> list[Row]:
        """Return the rows that `sql` selects, each of the type `row`.

        A column of SQLite may hold values of any type. Raises `msgspec.ValidationError` for another type than in `row`.
        """
        return convert(self._connection.execute(sql, values).fetchall(), cast("type[list[Row]]", list[row]))  # type: ignore[valid-type]

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; empty if the profile does not have it."""
        if table not in self._columns:
            named = self.rows("SELECT name FROM pragma_table_info(?)", tuple[str], (table,))
            self._columns[table] = frozenset(name for (name,) in named)
        return self._columns[table]

    def blocks(self, table: str, columns: Sequence[str], where: str) -> Iterator[tuple[Sequence[int], ...]]:
        """Yield blocks of columns (SQL expressions of integers) of the rows that match `where`.

        SQLite formats a block as JSON and msgspec parses it, which takes half the time of creating a tuple per row.
        """
        as_json = ", ".join(f"json_group_array({column})" for column in columns)
        for low in range(0, self._last_row(table), _BLOCK):
            condition = f"FROM {table} WHERE rowid > {low} AND rowid <= {low + _BLOCK} AND {where}"
            if self._has_json:
                texts = self._connection.execute(f"SELECT {as_json} {condition}").fetchone()
                block: tuple[Sequence[int], ...] = tuple(_decode(text) for text in texts)
            else:
                rows = self.rows(f"SELECT {', '.join(columns)} {condition}", tuple[int, ...])
                block = tuple(zip(*rows, strict=True))
            if block and block[0]:
                yield block

    def rows_near(self, table: str, column: str, low: int, high: int) -> str:
        """Return an SQL condition on rowid that includes all rows with `column` from `low` to `high`.

        It excludes most other rows if a sample shows that the table is sorted by `column`, since nsys writes rows
        approximately in order of time. Some rows may be slightly out of order.
        """
        rows, values = self._sample(table, column)
        if not rows:
            return "1"
        first, last = bisect_left(values, low) - 2, bisect_right(values, high) + 1
        conditions = [f"rowid >= {rows[first]}"] if first >= 0 else []
        conditions += [f"rowid <= {rows[last]}"] if last < len(rows) else []
        return " AND ".join(conditions) or "1"

    def _sample(self, table: str, column: str) -> tuple[list[int], list[int]]:
        """Return evenly spaced rowids of a table and their values of `column`; empty if they are not ascending."""
        if (table, column) not in self._samples:
            last = self._last_row(table)
            spread = ",".join(str(1 + last * i // _SAMPLE) for i in range(_SAMPLE))
            sample = f"rowid IN ({spread}) AND {column} IS NOT NULL"
            pairs = self.rows(f"SELECT rowid, {column} FROM {table} WHERE {sample} ORDER BY rowid", tuple[int, int])
            values = [value for _, value in pairs]
            self._samples[table, column] = ([row for row, _ in pairs], values) if values == sorted(values) else ([], [])
        return self._samples[table, column]

    def _last_row(self, table: str) -> int:
        ((last,),) = self.rows(f"SELECT ifnull(max(rowid), 0) FROM {table}", tuple[int])
        return last

    def strings(self, wanted: set[int]) -> dict[int, str]:
        """Return the strings of these ids; ids without a string are omitted."""
        if "StringIds" not in self.tables:
            return {}
        texts: dict[int, str] = {}
        ids = sorted(wanted)
        for i in range(0, len(ids), 500):
            some = tuple(ids[i : i + 500])
            places = ",".join("?" * len(some))
            texts.update(self.rows(f"SELECT id, value FROM StringIds WHERE id IN ({places})", tuple[int, str], some))
        return texts

    def meta(self) -> dict[str, str]:
        """Return the metadata of the export; the name of its table differs between versions."""
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            if table in self.tables:
                return dict(self.rows(f"SELECT name, value FROM {table} WHERE value IS NOT NULL", tuple[str, str]))
        return {}


@contextmanager
def open_profile(path: Path | RunFile) -> Iterator[Database]:
    """Open the profile at `path`. Raises `UsageError` if it is not an export, `InfraError` if it is damaged."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    with file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise UsageError(f"{path}: not an SQLite export of nsys")
        yield from _connected(path, f"/proc/self/fd/{file.fileno()}" if isinstance(path, RunFile) else path.absolute())


def _connected(path: Path | RunFile, place: Path | str) -> Iterator[Database]:
    """The profile `path`; `place` is where SQLite finds it: an open file, where its name may be exchanged."""
    # With `immutable`, SQLite creates no journal or lock file and never writes to the file.
    address = f"file:{quote(str(place))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode(errors="replace")
            connection.execute("PRAGMA mmap_size=1073741824")
            connection.execute("PRAGMA temp_store=MEMORY")
            profile = Database(connection, path)
            if not any(name.startswith(_TABLES) for name in profile.tables):
                raise UsageError(f"{path}: an SQLite file, but not an export of nsys: it has none of its tables")
            yield profile
    except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
        raise InfraError(f"{path}: damaged or not an export of nsys: {error}") from None


def _has_json(connection: sqlite3.Connection) -> bool:
    """Whether SQLite has its JSON functions; versions before 3.38 may be built without them."""
    try:
        connection.execute("SELECT json_group_array(1)")
    except sqlite3.OperationalError:
        return False
    return True
