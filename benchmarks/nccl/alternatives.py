"""Alternative engines that llmbx does not use. Each only counts calls by operation, size, data type and ranks.

They require numba, numpy, polars, pyarrow or duckdb. `compare.py --python` runs all of them.

    python benchmarks/nccl/alternatives.py numba nccl.log
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

BLOCK = 1 << 22
FIELDS = 24
"""Fields of a collective's line, separated by spaces, if it has no label."""

LINE = r"NCCL INFO (\w+): opCount \S+ sendbuff \S+ recvbuff \S+ count (\d+) datatype (\d+) op \d+ root \d+ comm \S+ \[nranks=(\d+)\]"  # noqa: E501


def with_blocks(path: Path, work: Callable[[Any, list[int]], None], threads: int = 2) -> int:
    """Call `work(bytes as an array, totals)` for each block of whole lines, in `threads` threads; return the total."""
    import numpy as np

    size, totals = path.stat().st_size, [[0] for _ in range(threads)]

    def read_part(number: int) -> None:
        memory = bytearray(BLOCK)
        stop, kept = size * (number + 1) // threads, 0
        with path.open("rb", buffering=0) as file:
            at = size * number // threads
            if at:
                file.seek(at)
                at += file.read(4096).index(b"\n") + 1
                file.seek(at)
            while at < stop and (read := file.readinto(memoryview(memory)[kept:])):
                end = memory.rfind(b"\n", 0, kept + read) + 1
                if at + end > stop:
                    end = memory.find(b"\n", max(0, stop - at - 1)) + 1
                work(np.frombuffer(memory, np.uint8)[:end], totals[number])
                memory[: kept + read - end] = memory[end : kept + read]
                at, kept = at + end, kept + read - end

    running = [threading.Thread(target=read_part, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(total[0] for total in totals)


def with_numba(path: Path) -> int:
    """Count with a byte scanner compiled by numba, and a hash table in arrays."""
    import numba
    import numpy as np

    @numba.njit(nogil=True, cache=True)
    def scan(a, keys, calls):  # type: ignore[no-untyped-def]
        found, i, n = 0, 0, len(a)
        while i < n:
            key, field, value, start = np.uint64(14695981039346656037), 0, np.uint64(0), i
            while i < n and a[i] != 10:
                c = a[i]
                if c == 32:
                    if field == 4 or field == 12 or field == 14:
                        key = (key ^ value) * np.uint64(1099511628211)
                    field, value = field + 1, np.uint64(0)
                elif field == 4 or field == 12 or field == 14:
                    value = value * np.uint64(31) + np.uint64(c)
                elif field == 21:
                    key = (key ^ np.uint64(c)) * np.uint64(1099511628211)
                i += 1
            i += 1
            if field == 23 and i - start > 120:
                index = np.int64(key & np.uint64(len(keys) - 1))
                while calls[index] and keys[index] != key:
                    index = (index + 1) & (len(keys) - 1)
                keys[index] = key
                calls[index] += 1
                found += 1
        return found

    def work(block: Any, total: list[int]) -> None:
        total[0] += scan(block, np.zeros(4096, np.uint64), np.zeros(4096, np.int64))

    return with_blocks(path, work)


def with_numpy(path: Path) -> int:
    """Count by columns: find all spaces, and convert lines with the usual number of fields to a table of offsets."""
    import numpy as np

    def work(a: Any, total: list[int]) -> None:
        spaces, ends = np.flatnonzero(a == 32), np.flatnonzero(a == 10)
        after = np.searchsorted(spaces, ends)
        fields = np.diff(after, prepend=0)
        first = (after - fields)[fields == 23]
        start, stop = spaces[first + 11] + 1, spaces[first + 12]
        value = np.zeros(len(first), np.int64)
        for index in range(int((stop - start).max(initial=0))):
            at = start + index
            digit = a[np.minimum(at, stop - 1)]
            value = np.where(at < stop, value * 10 + digit - 48, value)
        kinds = a[spaces[first + 3] + 1].astype(np.int64) << 40 | a[spaces[first + 13] + 1].astype(np.int64) << 48
        _, calls = np.unique(value ^ kinds, return_counts=True)
        total[0] += int(calls.sum())

    return with_blocks(path, work)


def with_polars(path: Path) -> int:
    """Count with a regular expression on a column of lines, and a group-by."""
    import polars as pl

    lines = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"])
    groups = lines.select(pl.col("line").str.extract_groups(LINE).alias("g")).unnest("g").drop_nulls()
    return int(groups.group_by(["1", "2", "3", "4"]).len().collect(engine="streaming")["len"].sum())


def with_polars_columns(path: Path) -> int:
    """Count by columns: read the log as a CSV file with spaces, which ignores lines with another number of fields."""
    import polars as pl

    names = [f"f{number}" for number in range(FIELDS)]
    lines = pl.scan_csv(
        path, has_header=False, separator=" ", quote_char=None, schema=dict.fromkeys(names, pl.String),
        missing_columns="insert", truncate_ragged_lines=True,
    ).filter(pl.col("f5") == "opCount", pl.col(names[-1]).is_not_null())  # fmt: skip
    groups = lines.group_by(["f4", "f12", "f14", "f21"]).len().collect(engine="streaming")
    return int(groups["len"].sum())


def with_pyarrow(path: Path) -> int:
    """Count by columns in the same way, in blocks, and a group-by for each."""
    import pyarrow as pa
    from pyarrow import compute, csv

    names = [f"f{number}" for number in range(FIELDS)]
    keys = ["f4", "f12", "f14", "f21"]
    reader = csv.open_csv(
        path,
        csv.ReadOptions(column_names=names, block_size=BLOCK),
        csv.ParseOptions(delimiter=" ", quote_char=False, invalid_row_handler=lambda row: "skip"),
        csv.ConvertOptions(include_columns=[*keys, "f5"], column_types=dict.fromkeys(names, pa.string())),
    )
    groups = []
    for block in reader:
        calls = pa.table(block.filter(compute.equal(block["f5"], "opCount")))
        groups.append(calls.group_by(keys).aggregate([([], "count_all")]))
    total = pa.concat_tables(groups).group_by(keys).aggregate([("count_all", "sum")])
    return int(compute.sum(total["count_all_sum"]).as_py())


def with_pyarrow_regex(path: Path) -> int:
    """Count with the regular expression of `with_polars`, by RE2, and a group-by for each block."""
    import pyarrow as pa
    from pyarrow import compute, csv

    named = LINE.replace(r"(\w+)", r"(?P<op>\w+)").replace(r"count (\d+)", r"count (?P<n>\d+)")
    named = named.replace(r"datatype (\d+)", r"datatype (?P<d>\d+)").replace(r"nranks=(\d+)", r"nranks=(?P<r>\d+)")
    reader = csv.open_csv(
        path,
        csv.ReadOptions(column_names=["line"], block_size=BLOCK),
        csv.ParseOptions(delimiter="\x01", quote_char=False),
        csv.ConvertOptions(column_types={"line": pa.string()}),
    )
    total = 0
    for block in reader:
        found = compute.extract_regex(block["line"], named).drop_null()
        calls = pa.Table.from_struct_array(found).group_by(["op", "n", "d", "r"]).aggregate([([], "count_all")])
        total += compute.sum(calls["count_all"]).as_py() or 0
    return total


def with_duckdb(path: Path) -> int:
    """Count with the same operations in SQL."""
    import duckdb

    query = """
        select sum(calls) from (
            select count(*) as calls from (
                select regexp_extract(line, $1, ['op', 'n', 'd', 'r']) as g
                from read_csv($2, header=false, delim='\x01', quote='', escape='', columns={'line': 'VARCHAR'})
            ) where g.op <> '' group by g
        )"""
    row = duckdb.connect(config={"threads": 2}).execute(query, [LINE, str(path)]).fetchone()
    return int(row[0]) if row else 0


ENGINES = {
    "numba": with_numba,
    "numpy": with_numpy,
    "pyarrow": with_pyarrow,
    "pyarrow, regex": with_pyarrow_regex,
    "polars": with_polars_columns,
    "polars, regex": with_polars,
    "duckdb": with_duckdb,
}

if __name__ == "__main__":
    print(ENGINES[sys.argv[1]](Path(sys.argv[2])))
