"""Count the calls in a memory-mapped log with one regular expression, in several processes.

Counts intact lines by operation, size, data type and ranks, without any handling of damaged lines. Imports only the
standard library, to start quickly.

    python benchmarks/nccl/regex_counter.py nccl.log --processes 2
"""

from __future__ import annotations

import argparse
import itertools
import mmap
import multiprocessing
import re
from collections import Counter
from pathlib import Path

LINE = re.compile(
    rb"NCCL INFO (\w+): opCount \S+ sendbuff \S+ recvbuff \S+ count (\d+) datatype (\d+) op \d+ root \d+ comm \S+ "
    rb"\[nranks=(\d+)\]"
)


def count(task: tuple[Path, int, int]) -> Counter[tuple[bytes, ...]]:
    """Return calls by (operation, count, data type, ranks) in the lines that begin in a part of the file."""
    path, start, stop = task
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        start = mapped.find(b"\n", start - 1) + 1 if start else 0
        stop = mapped.find(b"\n", stop - 1) + 1 or len(mapped)
        return Counter(map(re.Match.groups, LINE.finditer(mapped, start, stop)))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    size = options.path.stat().st_size
    bounds = [size * i // options.processes for i in range(options.processes + 1)]
    tasks = [(options.path, start, stop) for start, stop in itertools.pairwise(bounds)]
    total: Counter[tuple[bytes, ...]] = Counter()
    with multiprocessing.Pool(options.processes) as pool:
        for found in pool.imap(count, tasks):
            total.update(found)
    print(total.total())


if __name__ == "__main__":
    main()
