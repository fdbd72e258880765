"""What the sampler costs: its share of a core with 8 ranks and 8 stand-in GPUs, and what it does to the step time.

    python benchmarks/telemetry.py [--seconds 30] [--pairs 12]

The ranks are processes with 24 threads each that mostly sleep. For the step time, one process repeats a fixed piece of
work, while the sampler is stopped and continued in turn, in blocks of three seconds and in a random order: the 95 %
interval is that of the mean of the pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLER = ROOT / "plugins" / "telemetry" / "llmbx_telemetry" / "node" / "sampler.py"
STAND_IN = ROOT / "tests" / "plugins" / "telemetry" / "nvml_stand_in.c"
START = (
    "import runpy, sys; sys.path.insert(0, {0!r}); import sampler; sampler.NVML_SO = {1!r}; sampler.main(sys.argv[1:])"
)
RANK = """
import threading, time
for _ in range(24):
    threading.Thread(target=lambda: [time.sleep(0.05) for _ in range(1 << 30)], daemon=True).start()
time.sleep(1 << 20)
"""
BLOCK_S = 3.0


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--pairs", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libnvidia-ml-stand-in.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, STAND_IN, "-lm"], check=True)
        env = {**os.environ, "LLMBX_MASTER_ADDR": "here", "LLMBX_MASTER_PORT": "1"}
        ranks = [
            subprocess.Popen([sys.executable, "-c", RANK], env={**env, "LLMBX_RANK": str(rank)}) for rank in range(8)
        ]
        file = Path(folder) / "node-0.tsv"
        argv = [sys.executable, "-I", "-S", "-c", START.format(str(SAMPLER.parent), str(library))]
        sampler = subprocess.Popen([*argv, str(os.getpid()), str(file)], env=env)
        try:
            time.sleep(12)  # the ranks are found, and their busiest threads
            before, size = cpu_s(sampler.pid), file.stat().st_size
            time.sleep(options.seconds)
            used, written = cpu_s(sampler.pid) - before, file.stat().st_size - size
            for rank in ranks:
                rank.send_signal(signal.SIGSTOP)
            step = in_turn(sampler.pid, options.pairs)
        finally:
            for process in (*ranks, sampler):
                process.kill()
                process.wait()
    report = {
        "percent_of_a_core": round(100 * used / options.seconds, 3),
        "bytes_per_s": round(written / options.seconds),
        "step_slower_percent": step,
    }
    print(json.dumps(report, indent=1))


def cpu_s(pid: int) -> float:
    """Processor time of a process of one thread."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def in_turn(pid: int, pairs: int) -> dict[str, float]:
    """How much slower the work is while the sampler runs, in percent."""
    chance, differences = random.Random(1), []
    for _ in range(pairs):
        rates = {}
        for running in chance.sample([True, False], 2):
            os.kill(pid, signal.SIGCONT if running else signal.SIGSTOP)
            rates[running] = rate()
        os.kill(pid, signal.SIGCONT)
        differences.append(100 * (rates[False] / rates[True] - 1))
    half = 2.2 * statistics.stdev(differences) / math.sqrt(pairs)  # Student's t for 12 pairs
    mean = statistics.mean(differences)
    return {"mean": round(mean, 3), "low": round(mean - half, 3), "high": round(mean + half, 3)}


def rate() -> float:
    """Median number of pieces of work a second, of one block."""
    times, end = [], time.monotonic() + BLOCK_S
    while time.monotonic() < end:
        began = time.perf_counter()
        sum(number * number for number in range(20_000))
        times.append(time.perf_counter() - began)
    return 1 / statistics.mean(sorted(times)[: len(times) * 9 // 10])


if __name__ == "__main__":
    main()
