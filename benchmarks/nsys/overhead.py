"""What profiling adds to the steps that are not profiled: python benchmarks/nsys/overhead.py [--pairs 12]

Runs the Llama 3.1 mini plain and profiled by nsys in turn (which comes first changes from pair to pair), the same 30
steps of which the profiled run captures 25 to 26. Compared is the median time of steps 6 to 24, which are profiled in
neither, pair by pair. A single pair scatters by some per cent; the interval is that of the order statistics which holds
the median of all pairs in 19 of 20 cases or more. nsys is found on PATH or by LLMBX_NSYS.
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
    """Print every pair, then the median and its interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    pairs = parser.parse_args().pairs
    measured(PLAIN)  # builds the environment and warms caches
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
    """The median time of the compared steps of one run, in seconds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    run_id = json.loads(done.stdout)["run_id"]
    (log,) = find_install(os.environ).path.glob(f"workloads/*/experiments/*/{run_id}/*/steps.jsonl")
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    return statistics.median(step["time_s"] for step in steps if step["number"] in STEPS)


def interval(values: list[float]) -> tuple[float, float]:
    """The narrowest pair of order statistics that holds the median of what the values come from at 95 % or more."""
    ordered, n = sorted(values), len(values)
    outside = 0.0
    for rank in range(n // 2):
        outside += 2 * math.comb(n, rank) / 2**n
        if outside > 0.05:
            return ordered[max(0, rank - 1)], ordered[n - max(1, rank)]
    return ordered[0], ordered[-1]


def percent(ratio: float) -> str:
    """A ratio as a difference."""
    return f"{100 * (ratio - 1):+.2f} %"


if __name__ == "__main__":
    main()
