"""Start-up of the command line against the floor that its own libraries set: python benchmarks/startup.py

Runs each command in turn, 21 times, and prints the median, the fastest, and the ratio of the median to that of
`python -c "import click, pluggy"`. The aim for the median: at most 1.5 times that floor plus 60 ms.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 21
LLMBX = str(Path(sys.executable).with_name("llmbx"))
COMMANDS = {
    "import click, pluggy": [sys.executable, "-c", "import click, pluggy"],
    "llmbx --help": [LLMBX, "--help"],
    "llmbx list": [LLMBX, "list"],
}


def main() -> int:
    """Print the table; 1 when a command is past its aim."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            begun = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            times[name].append(1000 * (time.perf_counter() - begun))
    floor, *_ = (statistics.median(values) for values in times.values())
    aim = 1.5 * floor + 60
    print(f"{'command':<22}{'median ms':>10}{'min ms':>8}{'ratio':>7}   aim {aim:.0f} ms, {ROUNDS} rounds")
    late = False
    for name, values in times.items():
        median = statistics.median(values)
        late = late or median > aim
        print(f"{name:<22}{median:>10.1f}{min(values):>8.1f}{median / floor:>7.2f}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
