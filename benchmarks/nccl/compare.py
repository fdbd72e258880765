"""Compare llmbx with other programs that read an NCCL log, and print times, memory and ratios.

The log is generated if it does not exist. Each measurement starts a new process; the file is in the page cache.
Programs run alternately, so that disturbances affect all of them; the best time of each is compared.

    python benchmarks/nccl/compare.py nccl.log --repeat 5
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
COMMAND = "from llmbx_nccltrace.cli import command; command()"
ALTERNATIVES = ("numba", "numpy", "pyarrow", "pyarrow, regex", "polars", "polars, regex", "duckdb")


class Run(NamedTuple):
    """One measurement: seconds, CPU seconds of all processes, peak memory of the largest one in MB, and output."""

    seconds: float
    cpu: float
    megabytes: float
    output: str


def commands(log: Path, python: str | None) -> dict[str, list[str]]:
    """Return the compared commands by name. `python` is an interpreter with the libraries of the alternatives."""
    llmbx = [sys.executable, "-c", COMMAND, str(log), "--format", "json"]
    found = {
        "grep -c": ["grep", "-c", ": opCount ", str(log)],
        "regex, 2 processes": [sys.executable, str(HERE / "regex_counter.py"), str(log), "--processes", "2"],
        "llmbx nccl": [*llmbx, "--engine", "native"],
        "llmbx nccl, python": [*llmbx, "--engine", "python"],
    }
    if python:
        found["regex, 1 process"] = [sys.executable, str(HERE / "regex_counter.py"), str(log), "--processes", "1"]
        found.update({name: [python, str(HERE / "alternatives.py"), name, str(log)] for name in ALTERNATIVES})
    return found


def run(command: list[str]) -> Run:
    """Run a program and measure it. Raises `SystemExit` with its stderr if it fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=errors, text=True)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        out.seek(0)
        errors.seek(0)
        if status:
            raise SystemExit(f"{' '.join(command)}: {errors.read()[-2000:]}")
        return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read())


def counted(run_: Run) -> int:
    """Return the number of calls that a program counted."""
    import json

    return int(json.loads(run_.output)["calls"]) if run_.output.startswith("{") else int(run_.output)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=1080, help="size of the generated log")
    parser.add_argument(
        "--python", help="an interpreter with numba, numpy, pyarrow, polars and duckdb; also compare with these"
    )
    options = parser.parse_args()
    if not options.log.exists():
        make = [sys.executable, str(HERE / "generate.py"), str(options.log), "--megabytes", str(options.megabytes)]
        subprocess.run(make, check=True)
    chosen = commands(options.log, options.python)
    for command in chosen.values():
        run(command)  # numba compiles in its first run
    runs: dict[str, list[Run]] = {name: [] for name in chosen}
    for _ in range(options.repeat):
        for name, command in chosen.items():
            runs[name].append(run(command))
    report(options.log, runs)


def report(log: Path, runs: dict[str, list[Run]]) -> None:
    """Print one row per program."""
    size, load = log.stat().st_size, os.getloadavg()[0]
    print(f"{log.name}: {size / 1e6:,.0f} MB, generated. {os.cpu_count()} cores, load {load:.1f}")
    floor = min(r.seconds for r in runs["grep -c"])
    print(f"{'':20} {'best s':>8} {'median s':>9} {'CPU s':>6} {'x grep':>7} {'MB/s':>7} {'peak MB':>8}  {'calls':>12}")
    for name, some in runs.items():
        best, median = min(r.seconds for r in some), statistics.median(r.seconds for r in some)
        print(
            f"{name:20} {best:8.2f} {median:9.2f} {min(r.cpu for r in some):6.2f} {best / floor:7.1f} "
            f"{size / 1e6 / best:7,.0f} {max(r.megabytes for r in some):8.0f}  {counted(some[0]):12,}"
        )
    ratio = min(r.seconds for r in runs["regex, 2 processes"]) / min(r.seconds for r in runs["llmbx nccl"])
    print(f"llmbx is {ratio:.1f} times as fast as the regular expression in two processes")


if __name__ == "__main__":
    main()
