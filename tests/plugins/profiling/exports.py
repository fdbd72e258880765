"""Generate SQLite exports with the tables and columns of four versions of nsys."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path
from typing import Any

PID = 0x0001000000000000
"""The serialized id of process 0; process n adds n << 24."""

_TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    # A reduced or very old export: no processes, no demangled names and no domains.
    "bare": {
        "CUPTI_ACTIVITY_KIND_KERNEL": ("start", "end", "deviceId", "streamId", "correlationId", "shortName"),
        "NVTX_EVENTS": ("start", "end", "eventType", "text", "globalTid"),
    },
    "2022.4": {
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName",
            "shortName", "mangledName", "launchType", "graphNodeId",
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind",
        ),
        "CUPTI_ACTIVITY_KIND_MEMSET": ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes"),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            "start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue",
        ),
        "NVTX_EVENTS": (
            "start", "end", "eventType", "rangeId", "category", "color", "text", "globalTid", "endGlobalTid", "textId",
            "domainId", "uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue",
            "jsonTextId", "jsonText",
        ),
    },
}  # fmt: skip
_TABLES["2023.4"] = {
    **_TABLES["2022.4"],
    "CUPTI_ACTIVITY_KIND_KERNEL": (*_TABLES["2022.4"]["CUPTI_ACTIVITY_KIND_KERNEL"], "sharedMemoryLimitConfig"),
}
_TABLES["2025.1"] = {
    **_TABLES["2023.4"],
    "CUPTI_ACTIVITY_KIND_KERNEL": (*_TABLES["2023.4"]["CUPTI_ACTIVITY_KIND_KERNEL"], "greenContextId", "clusterX"),
    "NVTX_EVENTS": (*_TABLES["2022.4"]["NVTX_EVENTS"], "binaryData"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("start", "end", "deviceId", "graphId", "correlationId", "globalPid"),
}
_META = {"2022.4": "EXPORT_META_DATA", "2023.4": "META_DATA_EXPORT", "2025.1": "META_DATA_EXPORT"}
VERSIONS = tuple(_TABLES)


@dataclasses.dataclass
class Export:
    """Content of a profile. Times are in nanoseconds; rows are dicts of the relevant columns."""

    kernels: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    copies: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    graphs: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    calls: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    ranges: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    strings: dict[str, int] = dataclasses.field(default_factory=dict)

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, 7 + 3 * len(self.strings))

    def kernel(self, start: int, end: int | None, name: str, device: int = 0, pid: int = 1, call: int = 0) -> None:
        self.kernels.append(
            {"start": start, "end": end, "deviceId": device, "globalPid": PID + (pid << 24), "correlationId": call,
             "demangledName": self.string(name), "shortName": self.string(name)}
        )  # fmt: skip

    def copy(self, start: int, end: int, kind: int = 1, device: int = 0, pid: int = 1) -> None:
        self.copies.append(
            {"start": start, "end": end, "deviceId": device, "globalPid": PID + (pid << 24), "copyKind": kind}
        )

    def graph(self, start: int, end: int) -> None:
        self.graphs.append({"start": start, "end": end, "deviceId": 0, "globalPid": PID + (1 << 24), "graphId": 1})

    def call(self, start: int, number: int, pid: int = 1) -> None:
        self.calls.append(
            {"start": start, "end": start + 1, "globalTid": PID + (pid << 24) + 5, "correlationId": number}
        )

    def domain(self, number: int, name: str, pid: int = 1) -> None:
        self.ranges.append(
            {"start": -1, "end": None, "eventType": 75, "text": name, "domainId": number,
             "globalTid": PID + (pid << 24) + 5}
        )  # fmt: skip

    def range(
        self, start: int, end: int | None, text: str, domain: int = 0, payload: int | None = None, pid: int = 1,
        registered: bool = True, kind: int = 59,
    ) -> None:  # fmt: skip
        named = {"textId": self.string(text)} if registered else {"text": text}
        self.ranges.append(
            {"start": start, "end": end, "eventType": kind, "domainId": domain, "int64Value": payload,
             "globalTid": PID + (pid << 24) + 5, **named}
        )  # fmt: skip

    def write(self, path: Path, version: str = "2023.4") -> Path:
        path.unlink(missing_ok=True)
        tables = _TABLES[version]
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
            connection.executemany(
                "INSERT INTO StringIds VALUES (?, ?)", [(i, text) for text, i in self.strings.items()]
            )
            for table, rows in (
                ("CUPTI_ACTIVITY_KIND_KERNEL", self.kernels),
                ("CUPTI_ACTIVITY_KIND_MEMCPY", self.copies),
                ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", self.graphs),
                ("CUPTI_ACTIVITY_KIND_RUNTIME", self.calls),
                ("NVTX_EVENTS", self._plain(version)),
            ):
                # nsys creates a table only if it has rows.
                if rows and table in tables:
                    _fill(connection, table, tables[table], rows)
            if version in _META:
                connection.execute(f"CREATE TABLE {_META[version]} (name TEXT NOT NULL, value TEXT)")
                facts = [("EXPORT_PRODUCT_VERSION", f"{version}.1"), ("EXPORT_SCHEMA_VERSION", "3.0.0")]
                connection.executemany(f"INSERT INTO {_META[version]} VALUES (?, ?)", facts)
        connection.close()
        return path

    def _plain(self, version: str) -> list[dict[str, Any]]:
        """Old exports have no registered strings: the text is in the row."""
        if version != "bare":
            return self.ranges
        words = {i: text for text, i in self.strings.items()}
        return [{**row, "text": row.get("text") or words[row["textId"]]} for row in self.ranges]


def _fill(connection: sqlite3.Connection, table: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {_type(name)}' for name in columns)})")
    places = ", ".join("?" * len(columns))
    values = [tuple(row.get(name, _default(name)) for name in columns) for row in rows]
    connection.executemany(f"INSERT INTO {table} VALUES ({places})", values)


def _type(column: str) -> str:
    return (
        "TEXT" if column in ("text", "jsonText") else "REAL" if column in ("doubleValue", "floatValue") else "INTEGER"
    )


def _default(column: str) -> int | None:
    return 0 if column in ("contextId", "streamId", "correlationId", "bytes", "copyKind") else None
