"""How often a check of an unchanged node changes its mind: `python benchmarks/node_checks.py [TIMES]`.

Prints, for each check that this machine can make, how many of the repetitions found something else than most of them.
The figures of a CPU node are in plugins/accept/llmbx_accept/facts/limits.toml (`false_alarms`).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter, defaultdict

from llmbx_accept.facts.checks import checks_for, configuration, program
from llmbx_accept.facts.inspect import parse
from llmbx_accept.facts.judge import inspect


def main() -> None:
    """Check this machine again and again."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    checks = checks_for(None)
    argv = [sys.executable, "-I", "-S", "-c", program(), configuration(checks, folders=["/"])]
    states: dict[str, Counter[str]] = defaultdict(Counter)
    for _ in range(times):
        began = time.time()
        output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        answers = list(parse(output, began, time.time()).values())
        for cell in inspect(answers, checks, {}).cells:
            states[cell.check][cell.state] += 1
    for check, counts in states.items():
        usual, count = counts.most_common(1)[0]
        text = "not measured" if usual == "not checked" else f"{times - count} of {times}"
        print(f"{check:24} {usual:12} {text}")


if __name__ == "__main__":
    main()
