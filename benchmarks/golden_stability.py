"""The stability of real series of small jobs: Megatron-LM's golden values.

Usage: python benchmarks/golden_stability.py FOLDER

FOLDER is Megatron-LM's `tests/functional_tests`. Of its files `golden_values*.json`, those with a time for every
iteration, and at least 20, are judged as runs are: by the steps of the window `auto`. Printed are the verdicts, and how
well the median is known where single steps alone make a window unstable.
"""

from __future__ import annotations

import collections
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from llmbx.measure.window import choose
from llmbx.model import Step
from llmbx_verdict.stability import of_window
from llmbx_verdict.statistics import intervals, series

LEAST = 20
"""Iterations of a series, at least."""
KNOWN = 0.01
"""Half of the interval within which a figure is known, as for a stable mean."""


class Judged(NamedTuple):
    """The verdict on a series, whether nothing but single steps makes it unstable, and its mean over its median.

    `median` is half of the 95 % interval of the median, relative to it.
    """

    verdict: str | None
    single: bool
    ratio: float
    median: float


def times_of(path: Path) -> list[float]:
    """The seconds of each iteration; empty if the file has none, or not all of them."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # some are empty, or have conflict markers
        return []
    times = data.get("iteration-time") if isinstance(data, dict) else None
    if not isinstance(times, dict) or times.get("step_interval") != 1:
        return []
    values = times.get("values", ())
    return [time for time in (values.values() if isinstance(values, dict) else values) if isinstance(time, float)]


def judged(times: list[float]) -> Judged:
    """The verdict on one series by the window `auto`."""
    steps = [Step(number=number, time_s=time) for number, time in enumerate(times, 1)]
    _, measured = choose(steps, "auto")
    stability, seen = of_window("auto", steps, measured), series.detect(measured)
    window = [step.time_s for step in measured if step.time_s is not None]
    median = intervals.median_over_steps(window)
    assert median is not None
    single = stability.verdict in ("outliers", "noisy") and seen.levels is None and seen.drift is None
    half = (median.high - median.low) / 2 / median.mean
    return Judged(stability.verdict, single, statistics.fmean(window) / median.mean, half)


def lines(all_judged: list[Judged]) -> Iterator[str]:
    """The counts in words."""
    count = len(all_judged)
    for verdict, number in collections.Counter(each.verdict for each in all_judged).most_common():
        yield f"{verdict}: {number} ({100 * number / count:.0f} %)"
    single = [each for each in all_judged if each.single]
    by_median = sum(each.median <= KNOWN for each in single)
    ratios = sorted(abs(each.ratio - 1) for each in single)
    yield f"unstable for single steps or noise alone: {len(single)} ({100 * len(single) / count:.0f} %)"
    yield f"  of these, the median is known within {100 * KNOWN:g} %: {by_median}"
    far, most = statistics.median(ratios), ratios[-1]
    yield f"  of these, the mean is {100 * far:.1f} % (median) and up to {100 * most:.0f} % from the median"
    stable = sum(each.verdict == "stable" for each in all_judged)
    yield f"with a figure: {stable} by the mean alone, {stable + by_median} with the median"


def main(folder: Path) -> None:
    """Print the verdicts on all series of a folder."""
    recorded = [times_of(path) for path in sorted(folder.rglob("golden_values*.json"))]
    long = [times for times in recorded if len(times) >= LEAST]
    print(f"{len(long)} series of {len(recorded)} files")
    print("\n".join(lines([judged(times) for times in long])))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
