"""An install with 10,000 runs, and a sweep among them: python benchmarks/scale.py [RUNS] [FOLDER]

Times what a user waits for, from start to exit: listing, the status of the last run, completion of an id, the report of
a sweep, and the rebuild of the history. Each is shown beside the ratio of its CPU time to that of reading the index of
all runs with sqlite3 in a bare Python. The aims, for a quiet core: 0.5 s each, 10 s for the rebuild. A busy machine
makes the times from start to exit longer, so the aims are compared with the CPU times.

The install is made in FOLDER (default: a temporary one) unless it is there already.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from history import generate, specification, timed, write

from llmbx.config.install import Install
from llmbx.record.folder import SweepMark
from llmbx_history.index import index_path
from llmbx_sweep.cells import Cell
from llmbx_sweep.store import create

LLMBX = str(Path(sys.executable).with_name("llmbx"))
ROUNDS = 7
AIM_S = 0.5
REBUILDS = 3
REBUILD_AIM_S = 10.0

FLOOR = "reading the index with sqlite3"

READ = """
import sqlite3, sys
rows = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute("SELECT * FROM runs ORDER BY created DESC")
print(len(rows.fetchall()))
"""

CELLS, REPEATS, EXTRA = 8, 4, 60
"""The sweep: its cells and their repeats, and the other runs in the folder of each cell."""


def main() -> int:
    """Make the install, print the table; 1 if an aim is missed."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    own = len(sys.argv) <= 2
    base = Path(tempfile.mkdtemp() if own else sys.argv[2])
    folder = base / "install"
    try:
        if not folder.is_dir():
            generate(folder, count - CELLS * (REPEATS + EXTRA))
            add_sweep(folder)
        return report(folder, base / "cache")
    finally:
        if own:
            shutil.rmtree(base)


def add_sweep(folder: Path) -> None:
    """A sweep over cells in whose folders there are older runs, too."""
    source = random.Random(2)
    cells = tuple(
        Cell(key=f"line {number}", spec=specification(source, 10_000 + number), repeats=REPEATS, settings={})
        for number in range(CELLS)
    )
    sweep = create(Install(root=str(folder), origin="benchmark"), "line", ("sweep", "line"), cells, 100)
    for cell in cells:
        experiment = folder / "workloads" / cell.spec.folder / "experiments" / cell.spec.experiment
        for number in range(EXTRA + REPEATS):
            mark = SweepMark(sweep_id=sweep.sweep_id, cell=cell.key, repeat=number - EXTRA + 1)
            stamp = int(sweep.created) + number - EXTRA
            place = experiment / f"{cell.spec.experiment}_{stamp}" / cell.spec.experiment
            write(place, cell.spec, stamp, source, mark if number >= EXTRA else None)


def report(folder: Path, cache: Path) -> int:
    """The table of one install."""
    env = {**os.environ, "LLMB_INSTALL": str(folder), "XDG_CACHE_HOME": str(cache)}
    install = Install(root=str(folder), origin="benchmark")
    index = index_path(install, env)
    (sweep,) = sorted(path.name for path in (folder / "sweeps").iterdir())
    commands = {
        FLOOR: [sys.executable, "-c", READ, str(index)],
        "llmbx --help": [LLMBX, "--help"],
        "jobs": [LLMBX, "jobs"],
        "jobs --limit 20": [LLMBX, "jobs", "--limit", "20"],
        "jobs --limit 0": [LLMBX, "jobs", "--limit", "0"],
        "jobs --format jsonl": [LLMBX, "jobs", "--format", "jsonl"],
        "status last": [LLMBX, "status", "last"],
        "completion of an id": [LLMBX],
        "report of a sweep": [LLMBX, "report", sweep, "--format", "json"],
        "sweep --show": [LLMBX, "sweep", "--show", sweep],
        "jobs rebuild": [LLMBX, "jobs", "rebuild"],
    }
    completing = {**env, "_LLMBX_COMPLETE": "bash_complete", "COMP_WORDS": "llmbx status a", "COMP_CWORD": "2"}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    timed([LLMBX, "jobs", "rebuild"], env)
    for number in range(ROUNDS):
        for name, command in commands.items():
            if name != "jobs rebuild" or number < REBUILDS:
                before = cpu_s()
                wall_ms = timed(command, completing if name.startswith("completion") else env)
                times[name].append((wall_ms / 1000, cpu_s() - before))
    return show(folder, times)


def cpu_s() -> float:
    """CPU seconds of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(folder: Path, times: dict[str, list[tuple[float, float]]]) -> int:
    """Print the table; 1 if an aim is missed."""
    count = sum(1 for _ in folder.glob("workloads/*/experiments/*/*/*/run.json"))
    print(f"{count} runs, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {ROUNDS} rounds in turn\n")
    print("| command | start to exit, median [s] | fastest [s] | CPU, median [s] | CPU / reading the index |")
    print("|---|---|---|---|---|")
    floor = statistics.median(cpu for _, cpu in times[FLOOR])
    late = False
    for name, found in times.items():
        wall, cpu = [one for one, _ in found], statistics.median(used for _, used in found)
        print(f"| {name} | {statistics.median(wall):.2f} | {min(wall):.2f} | {cpu:.2f} | {cpu / floor:.1f} |")
        late = late or cpu > (REBUILD_AIM_S if name == "jobs rebuild" else AIM_S)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
