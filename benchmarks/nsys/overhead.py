"""Measure the overhead of nsys on steps that are not profiled: python benchmarks/nsys/overhead.py [--pairs 12]

Runs pairs of the Llama 3.1 mini with and without nsys, in alternating order. Each run has 30 steps; the profiled run
captures steps 25 and 26. The ratio of the median times of steps 6 to 24, which are profiled in neither run, is computed
for each pair. Single pairs vary by several percent; the interval contains the median with a confidence of at least 95 %
(from order statistics). nsys is found on PATH or with LLMBX_NSYS.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

from llmbx.config.install import find_install

LLMBX = str(Path(sys.executable).with_name("llmbx"))
STEPS = range(6, 25)
PLAIN = [LLMBX, "run", "llama3.1", "--steps", "30", "--format", "json"]
PROFILED = [LLMBX, "profile", "llama3.1", "--steps", "25-27", "--max-steps", "30", "--format", "json"]


def main() -> None:
    """Print every pair, then the median and its confidence interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    pairs = parser.parse_args().pairs
    measured(PLAIN)  # creates the environment and fills caches
    ratios = []
    for number in range(pairs):
        order = [PLAIN, PROFILED] if number % 2 == 0 else [PROFILED, PLAIN]
        times = {id(command): measured(command) for command in order}
        ratios.append(times[id(PROFILED)] / times[id(PLAIN)])
        print(f"pair {number + 1:2}: plain {1000 * times[id(PLAIN)]:7.1f} ms, profiled "
              f"{1000 * times[id(PROFILED)]:7.1f} ms, {100 * (ratios[-1] - 1):+6.2f} %", flush=True)  # fmt: skip
    low, high = interval(ratios)
    print(f"{pairs} pairs: median {percent(statistics.median(ratios))}, interval {percent(low)} to {percent(high)}")


def measured(command: list[str]) -> float:
    """Run a command and return the median time of the compared steps, in seconds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exited with code {done.returncode}: {done.stdout}{done.stderr}")
    run_id = json.loads(done.stdout)["run_id"]
    (log,) = find_install(os.environ).path.glob(f"workloads/*/experiments/*/{run_id}/*/steps.jsonl")
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    return statistics.median(step["time_s"] for step in steps if step["number"] in STEPS)


def interval(values: list[float]) -> tuple[float, float]:
    """Return the narrowest pair of order statistics that contains the true median with at least 95 % confidence."""
    ordered, n = sorted(values), len(values)
    outside = 0.0
    for rank in range(n // 2):
        outside += 2 * math.comb(n, rank) / 2**n
        if outside > 0.05:
            return ordered[max(0, rank - 1)], ordered[n - max(1, rank)]
    return ordered[0], ordered[-1]


def percent(ratio: float) -> str:
    """Format a ratio as a percentage change."""
    return f"{100 * (ratio - 1):+.2f} %"


if __name__ == "__main__":
    main()
