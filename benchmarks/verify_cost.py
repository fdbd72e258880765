"""What `run --verify-compute` costs: python benchmarks/verify_cost.py [LAYOUT …] [--runs 5] [--steps 50].

The time of the second pass is written down by each rank; it is compared with the time from the first step to the last
of the same run, so that a machine that is busy slows both. A layout is one of `bit_flips.py`. Printed are the shares of
the runs, and their mean with its 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from bit_flips import LAYOUTS, run

from llmbx_verdict.statistics.intervals import over_repeats


def share(result: dict[str, Any], folder: Path) -> float:
    """The time of the slowest rank's second pass, as a share of the time of the steps."""
    records = [json.loads(file.read_text()) for file in (folder / "verify").glob("rank-*.json")]
    steps = [json.loads(line)["time_s"] for line in (folder / "steps.jsonl").read_text().splitlines()]
    seconds: float = max(record["seconds"] for record in records)
    return seconds / math.fsum(time for time in steps if time is not None)


def main() -> None:
    """Run each layout several times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layouts", nargs="*", default=["bridge-dp2"], metavar="LAYOUT", help=", ".join(LAYOUTS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    for layout in options.layouts:
        shares = []
        for _ in range(options.runs):
            code, result, folder = run(layout, options.steps)
            assert code == 0, result["cause"]
            shares.append(100 * share(result, folder))
        mean = over_repeats(shares)
        print(f"{layout}, {options.steps} steps: " + ", ".join(f"{each:.1f} %" for each in shares), flush=True)
        if mean is not None:
            print(f"mean {mean.mean:.2f} % (95 %: {mean.low:.2f} to {mean.high:.2f} %)", flush=True)


if __name__ == "__main__":
    main()
