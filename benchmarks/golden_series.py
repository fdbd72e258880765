"""The false alarms of the checks on Megatron-LM's own series: python benchmarks/golden_series.py CHECKOUT.

CHECKOUT is a clone of github.com/NVIDIA/Megatron-LM. Its functional tests keep what trainings printed: the loss and the
step time of each step, or of every fifth, in `golden_values*.json`. They are healthy, so every finding of a check is a
false alarm, except those that say what the file has. `--show` prints them.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmbx.measure.figures import measure
from llmbx.measure.window import log_interval
from llmbx.model import Evidence, Prints, Step
from llmbx.run.checks import run_checks
from llmbx_verdict.checks import change, loss, outside, timing
from llmbx_verdict.judge import IntervalJudge

CHECKS = (*loss.CHECKS, *change.CHECKS, *timing.CHECKS, *outside.CHECKS)
"""The checks that a series can show something to."""

LEAST = 0.5
"""A training whose loss begins below it is another one: distillation or reinforcement learning."""

PRINTS = Prints(cross_entropy=True)


def numbers(series: Mapping[str, Any]) -> dict[int, float]:
    """The values of a series by step; those that are no number are left out."""
    values = series.get("values", {})
    pairs = values.items() if isinstance(values, dict) else enumerate(values, series.get("start_step", 1))
    return {int(step): float(value) for step, value in pairs if _is_number(value)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def steps_of(file: Path) -> list[Step]:
    """The steps of a file: number, loss and time; none of a file of something else."""
    try:
        text = json.loads(file.read_text())
    except ValueError:
        return []
    if not isinstance(text, dict) or not isinstance(text.get("lm loss", {}), dict):
        return []
    losses, times = numbers(text.get("lm loss", {})), numbers(text.get("iteration-time", {}))
    sparse = log_interval(sorted(times)) != log_interval(sorted(losses))  # no log has both
    return [Step(number=n, loss=losses[n], time_s=None if sparse else times.get(n)) for n in sorted(losses)]


def findings(steps: list[Step]) -> Iterator[str]:
    """The findings of the checks, each with its effect."""
    figures = measure(None, steps, None, "auto", 1, judge=IntervalJudge())
    evidence = Evidence(
        steps=tuple(steps), prints=PRINTS, figures=figures, first=1,
        interval=log_interval([step.number for step in steps]),
    )  # fmt: skip
    for outcome in run_checks(evidence, CHECKS):
        if outcome.outcome != "not possible":
            yield f"{outcome.check} ({outcome.outcome}): {outcome.text}"


def main() -> None:
    """Print the counts."""
    folder, show = Path(sys.argv[1]), "--show" in sys.argv
    files = sorted(folder.glob("tests/functional_tests/**/golden_values*.json"))
    read = {file: steps for file in files if (steps := steps_of(file))}
    others = {file for file, steps in read.items() if any((step.loss or 0.0) < LEAST for step in steps[:4])}
    series = {file: steps for file, steps in read.items() if file not in others}
    counts: Counter[str] = Counter()
    for file, steps in series.items():
        for text in findings(steps):
            counts[text.partition(":")[0]] += 1
            if show:
                print(f"{file.relative_to(folder)}: {text}")
    print(f"{len(files)} files, {len(series) + len(others)} with losses; findings in {len(series)} of a training:")
    for name, count in counts.most_common():
        print(f"  {name}: {count}")
    if not counts:
        print("  none")
    print(f"left out, as their loss is not that of a training: {', '.join(sorted({f.parent.name for f in others}))}")


if __name__ == "__main__":
    main()
