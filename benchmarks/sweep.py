"""Submitting through llmbx against a plain loop of sbatch: python benchmarks/sweep.py [RUNS] [ROUNDS]

It starts a private Slurm (see tests/integration/slurm/cluster.py) and takes turns on it: RUNS (500) jobs of one second
submitted by a shell loop, and as many by `llmbx sweep`. Submission is measured while the partition is down, so that the
jobs themselves do not take part in it (aim: at most 1.3 times the loop, all of llmbx's own start and checks included).
Then the partition is opened, and the time to the end and the completeness of the sweep are printed.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

AIM = 1.3
ROOT = Path(__file__).parents[1]
LLMBX = Path(sys.executable).with_name("llmbx")
PLAIN = "#!/bin/bash\n#SBATCH --ntasks=1 --no-requeue --output=plain-%j.out\nsrun sleep 1\n"


def new_cluster(folder: Path) -> Any:
    """A Slurm of four nodes; eight jobs at a time on each: a small machine cannot start many steps at once."""
    sys.path.insert(0, str(ROOT))
    return importlib.import_module("tests.integration.slurm.cluster").Cluster(folder, cpus=8)


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def plain_loop(folder: Path, runs: int, env: dict[str, str]) -> float:
    """The loop that a user would type."""
    folder.mkdir()
    (folder / "job.sh").write_text(PLAIN)
    loop = f"for i in $(seq {runs}); do sbatch --parsable job.sh || exit 1; done > ids"
    return timed(lambda: subprocess.run(["bash", "-c", loop], cwd=folder, env=env, check=True))


def begun(install: Path) -> int:
    """Runs that have a folder: quickly counted, so that watching does not slow down what is watched."""
    return sum(1 for _ in install.glob("workloads/*/experiments/*/*"))


def submitted(install: Path) -> list[dict[str, Any]]:
    """The records of the runs that have a job."""
    records = [json.loads(path.read_bytes()) for path in install.glob("workloads/*/experiments/*/*/*/run.json")]
    return [record for record in records if record["job"]]


def sweep(cluster: Any, install: Path, runs: int, env: dict[str, str]) -> tuple[float, float, int]:
    """Seconds from typing the command to the last job id, then from opening the partition to the end; valid results."""
    argv = [LLMBX, "sweep", "line", "--launcher", "slurm", "--gpus", "1", "--set", "pace=0.05", "--repeats", str(runs),
            "--max-jobs", str(max(500, runs)), "--format", "json"]  # fmt: skip
    began = time.time()
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            while begun(install) < runs or len(found := submitted(install)) < runs:
                assert process.poll() is None, "llmbx ended before it had submitted everything"
                time.sleep(0.5)
            last = max(record["job"]["submitted"] for record in found)
            cluster.call("scontrol", "update", "partitionname=batch", "state=up")
            opened = time.time()
            out, _ = process.communicate()
        finally:
            process.kill()
    return last - began, time.time() - opened, sum(row["n"] for row in json.loads(out))


def main() -> None:
    runs, rounds = (int(text) for text in (*sys.argv[1:], *("500", "1")[len(sys.argv) - 1 :]))
    loops, sweeps = [], []
    with tempfile.TemporaryDirectory(prefix="llmbx-sweep-") as name:
        Path(name).chmod(0o755)  # munged wants its clients to reach its socket
        cluster = new_cluster(Path(name) / "slurm")
        cluster.folder.mkdir()
        cluster.start()
        try:
            for number in range(rounds):
                cluster.call("scontrol", "update", "partitionname=batch", "state=down")
                loops.append(plain_loop(Path(name) / f"plain{number}", runs, cluster.environment()))
                cluster.call("scancel", "--state=PENDING", "--name=job.sh")
                install = Path(name) / f"install{number}"
                env = {**cluster.environment(), "LLMB_INSTALL": str(install), "LLMBX_CONFIG": "/dev/null"}
                subprocess.run([LLMBX, "run", "line", "--launcher", "local"], env=env, check=True, capture_output=True)
                for folder in install.glob("workloads"):
                    folder.rename(Path(name) / f"warm{number}")
                submission, rest, valid = sweep(cluster, install, runs, env)
                sweeps.append(submission)
                print(f"loop {loops[-1]:.1f} s, sweep {submission:.1f} s ({submission / loops[-1]:.2f} times); "
                      f"then {rest:.0f} s to the end, {valid} of {runs} valid", flush=True)  # fmt: skip
        finally:
            cluster.stop()
    ratio = statistics.median(sweeps) / statistics.median(loops)
    print(f"{runs} jobs, {os.cpu_count()} cores, {rounds} round(s): {ratio:.2f} times the loop (aim: at most {AIM})")
    sys.exit(ratio > AIM)


if __name__ == "__main__":
    main()
