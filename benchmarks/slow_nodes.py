"""How many runs `llmbx nodes bisect` needs, and how often it is wrong: python benchmarks/slow_nodes.py [--repeats 400]

Step times are drawn with the run-to-run spreads that are published (MLPerf Training v5: median 0.11 %, 90th percentile
0.54 %); the slow nodes are 5 to 10 % slower. Beside it: the runs of halving each slow part to its end (both halves are
run, as Primus' tools/preflight_bisect/bisect.py of fd1eeabb does; re-expressed here, without noise),
and the bound of information, with which each run answers yes or no.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics

from llmbx_accept.bisect.decision import Judgement
from llmbx_accept.bisect.measure import ERROR
from llmbx_accept.bisect.search import Outcome, search

SPREADS = (0.0011, 0.0054)
DIFFERENCE = 0.03


def outcome(nodes: int, slow: dict[str, float], spread: float, chance: random.Random) -> Outcome:
    """A search among `nodes` nodes."""
    judgement = Judgement(difference=DIFFERENCE, spread=spread, error=ERROR / (8 * math.log2(nodes)))
    asked = search([f"n{number}" for number in range(nodes)], judgement)
    try:
        ask = next(asked)
        while True:
            factor = 1 + max(slow.get(node, 0.0) for node in ask.nodes)
            ask = asked.send(factor * chance.lognormvariate(0, spread))
    except StopIteration as end:
        result: Outcome = end.value
        return result


def halvings(nodes: int, slow: set[int]) -> int:
    """The runs of a program that runs both halves of each slow part, without noise."""
    runs, parts = 0, [range(nodes)]
    while parts:
        part = parts.pop()
        runs += 1
        if len(part) > 1 and slow & set(part):
            middle = len(part) // 2
            parts += [part[:middle], part[middle:]]
    return runs


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400)
    repeats, chance = parser.parse_args().repeats, random.Random(1)
    print("| nodes | slow | spread | right | runs, mean (95th percentile) | 2 k log2 N | halving | information |")
    print("|---|---|---|---|---|---|---|---|")
    for nodes in (16, 64, 256, 1024):
        for count in (1, 2, 3, 4):
            for spread in SPREADS:
                right, runs, halved = 0, [], []
                for _ in range(repeats):
                    numbers = chance.sample(range(nodes), count)
                    slow = {f"n{number}": chance.uniform(0.05, 0.1) for number in numbers}
                    result = outcome(nodes, slow, spread, chance)
                    right += set(result.slow) == set(slow) and not result.undecided
                    runs.append(result.runs)
                    halved.append(halvings(nodes, set(numbers)))
                print(
                    f"| {nodes} | {count} | {100 * spread:.2f} % | {100 * right / repeats:.1f} % "
                    f"| {statistics.mean(runs):.1f} ({statistics.quantiles(runs, n=20)[-1]:.0f}) "
                    f"| {2 * count * math.log2(nodes):.0f} | {statistics.mean(halved):.1f} "
                    f"| {math.log2(math.comb(nodes, count)):.1f} |"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
