"""Compare the analysis of a large profile with a baseline: python benchmarks/nsys/analysis.py [profile.sqlite]

The baseline is a separate process that reads the required columns of the same file with Python's sqlite3: start, end,
device, process and name of every kernel. `llmbx nsys` also computes busy, communication and exposed time for every rank
and step. Both run alternately; the target is at most twice the baseline. Without an argument, a profile is generated in
a temporary folder (see generate.py).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from generate import write

ROUNDS = 5
TARGET = 2.0
BASELINE = """
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute(
    "SELECT start, end, deviceId, globalPid, demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL"
)
rows.arraysize = 50_000
count = 0
while block := rows.fetchmany():
    count += len(block)
print(count)
"""
LLMBX = str(Path(sys.executable).with_name("llmbx"))


def main() -> int:
    """Print the table. Returns 1 if the target is missed."""
    if len(sys.argv) > 1:
        return compare(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.sqlite"
        write(path, 2_000_000, 8)
        return compare(path)


def compare(path: Path) -> int:
    """Run baseline and analysis alternately on one file."""
    commands = {
        "reading the columns": [sys.executable, "-c", BASELINE, str(path)],
        "llmbx nsys": [LLMBX, "nsys", str(path), "--format", "json"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    output = ""
    for _ in range(ROUNDS):
        for name, command in commands.items():
            begun = time.perf_counter()
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            times[name].append(time.perf_counter() - begun)
    analysis = json.loads(output)
    print(f"{path.stat().st_size / 1e6:.0f} MB, {sum(rank['kernels'] for rank in analysis['ranks']):,} kernels, "
          f"{len(analysis['ranks'])} ranks, {len(analysis['steps'])} steps, exposed {analysis['exposed_share']:.2%}, "
          f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}, {ROUNDS} rounds")  # fmt: skip
    baseline = statistics.median(times["reading the columns"])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:<22}median {median:6.2f} s   min {min(values):6.2f} s   ratio {median / baseline:5.2f}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    print(f"largest process {peak:,.0f} MB; target: at most {TARGET} times the baseline")
    return 1 if statistics.median(times["llmbx nsys"]) > TARGET * baseline else 0


if __name__ == "__main__":
    sys.exit(main())
