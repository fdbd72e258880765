"""An exported profile as SQLite: opened so that not a byte of it can change, and asked for what its version has."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from llmbx.errors import InfraError, UsageError

PROCESS = ~0xFFFFFF
"""Mask of a serialised thread id (`globalTid`) that leaves its process's (`globalPid`)."""

_BLOCK = 50_000
"""Rows of a block: few enough to stay in the processor's cache as lists, enough that a query costs nothing."""

_SAMPLE = 400
"""Rows that are looked at to see whether a table is in some order."""

_decode = msgspec.json.Decoder(list[int]).decode

_MAGIC = b"SQLite format 3\0"


class Database:
    """A read-only profile: its tables and columns, and the strings that they refer to."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self._connection = connection
        self._columns: dict[str, frozenset[str]] = {}
        self._samples: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
        self._has_json = _has_json(connection)
        self.tables = frozenset(
            name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        )

    def rows(self, sql: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """The rows that `sql` selects, as they are read."""
        return self._connection.execute(sql, values)

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; none when the profile does not have it."""
        if table not in self._columns:
            named = self.rows("SELECT name FROM pragma_table_info(?)", (table,)) if table in self.tables else ()
            self._columns[table] = frozenset(name for (name,) in named)
        return self._columns[table]

    def blocks(self, table: str, columns: Sequence[str], where: str) -> Iterator[tuple[Sequence[int], ...]]:
        """Whole columns (SQL expressions of integers) of the rows that fit `where`, some ten thousand rows at a time.

        SQLite writes a block as JSON and msgspec reads it, which takes half the time of making every row a tuple.
        """
        (last,) = self.rows(f"SELECT max(rowid) FROM {table}").fetchone()
        as_json = ", ".join(f"json_group_array({column})" for column in columns)
        for low in range(0, last or 0, _BLOCK):
            condition = f"FROM {table} WHERE rowid > {low} AND rowid <= {low + _BLOCK} AND {where}"
            if self._has_json:
                (row,) = self.rows(f"SELECT {as_json} {condition}")
                block: tuple[Sequence[int], ...] = tuple(_decode(text) for text in row)
            else:
                block = tuple(zip(*self.rows(f"SELECT {', '.join(columns)} {condition}"), strict=True))
            if block and block[0]:
                yield block

    def rows_near(self, table: str, column: str, low: int, high: int) -> str:
        """A condition that all rows with `column` from `low` to `high` fit, and few others where the table is in order.

        nsys writes by time. A sample tells whether a table is in a column's order; rows may be somewhat out of place.
        """
        rows, values = self._sample(table, column)
        if not rows:
            return "1"
        first, last = bisect_left(values, low) - 2, bisect_right(values, high) + 1
        conditions = [f"rowid >= {rows[first]}"] if first >= 0 else []
        conditions += [f"rowid <= {rows[last]}"] if last < len(rows) else []
        return " AND ".join(conditions) or "1"

    def _sample(self, table: str, column: str) -> tuple[list[int], list[int]]:
        """Some rows of a table, evenly spread, and what they hold; nothing where that is not ascending."""
        if (table, column) not in self._samples:
            (last,) = self.rows(f"SELECT max(rowid) FROM {table}").fetchone()
            spread = ",".join(str(1 + (last or 0) * i // _SAMPLE) for i in range(_SAMPLE))
            found = list(self.rows(f"SELECT rowid, {column} FROM {table} WHERE rowid IN ({spread}) ORDER BY rowid"))
            values = [value for _, value in found]
            sorted_ = None not in values and values == sorted(values)
            self._samples[table, column] = ([row for row, _ in found], values) if sorted_ else ([], [])
        return self._samples[table, column]

    def strings(self, wanted: set[int]) -> dict[int, str]:
        """The texts of these ids; an id without a text is left out."""
        if "StringIds" not in self.tables:
            return {}
        found: dict[int, str] = {}
        ids = sorted(wanted)
        for i in range(0, len(ids), 500):
            some = tuple(ids[i : i + 500])
            found.update(self.rows(f"SELECT id, value FROM StringIds WHERE id IN ({','.join('?' * len(some))})", some))
        return found

    def meta(self) -> dict[str, str]:
        """What the exporter says of itself; the table's name changed between versions."""
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            if table in self.tables:
                return dict(self.rows(f"SELECT name, value FROM {table}"))
        return {}


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """The profile at `path`. Raises `UsageError` for what is not an export, `InfraError` for a damaged one."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if start != _MAGIC:
        raise UsageError(f"{path}: not an SQLite export of nsys")
    # `immutable` keeps SQLite from making a journal or lock beside the file, and from ever writing to it.
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode(errors="replace")
            connection.execute("PRAGMA mmap_size=1073741824")
            connection.execute("PRAGMA temp_store=MEMORY")
            yield Database(connection, path)
    except sqlite3.DatabaseError as error:
        raise InfraError(f"{path}: damaged or not an export of nsys: {error}") from None


def _has_json(connection: sqlite3.Connection) -> bool:
    """SQLite before 3.38 may be built without its JSON functions."""
    try:
        connection.execute("SELECT json_group_array(1)")
    except sqlite3.OperationalError:
        return False
    return True
