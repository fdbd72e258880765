"""Measure what `llmbx predict` answers for published figures, with whole groups of them left out of the table.

Usage: python benchmarks/predict/by_group.py [--write]

Every group (a model, a GPU type, a family, a stack, a release, an organization) is left out in turn, and all of its
figures are asked for. The factors of the intervals are those that ship, and, beside them, those of one half of the
models for the figures of the other half. `--write` puts the tables into docs/prediction.md.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from folds import Used, all_errors, groups, widths

from llmbx_prediction.atlas import table
from llmbx_prediction.prediction import Predictor
from llmbx_prediction.regression.shipped import Calibration, calibration, familiarity, usable

PAGE = Path(__file__).parents[2] / "docs" / "prediction.md"
BEGIN, END = "<!-- by_group.py -->", "<!-- end -->"
LEFT_OUT = ("model", "GPU", "family", "stack", "release", "organization")
HEAD = "| left out | figures of | n | answered | mean | median | interval holds | by the other half |"
RULE = "|---|---|---|---|---|---|---|---|"


class Answer(NamedTuple):
    """The answer for one figure: what it is a figure of, the relative error of the step time, and whether the interval
    contains it by the factors that ship and by those of the other half. Unknown is None.
    """

    model: str
    family: str
    stack: str
    error: float | None
    inside: bool | None
    by_half: bool | None


def answers(used: Used, name: str, halves: Sequence[dict[str, float]]) -> Iterator[Answer]:
    """The answers for all figures, each without the figures of its group."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    keys = groups(used, name)
    for index, key in enumerate(keys):
        members[key].append(index)
    half = half_of(used)
    for key, inside in members.items():
        predictor = Predictor([row for index, (row, *_) in enumerate(used) if keys[index] != key])
        for index in inside:
            yield _answer(predictor, used, index, halves[1 - half[used[index][0].model]])


def half_of(used: Used) -> dict[str, int]:
    """The half of each model: every second one by name within its family."""
    names = sorted({(case.model.family, row.model) for row, case, _ in used})
    return {model: number % 2 for number, (_, model) in enumerate(names)}


def _answer(predictor: Predictor, used: Used, index: int, others: dict[str, float]) -> Answer:
    row, case, seconds = used[index]
    step = predictor.predict(case, "").step_time_s
    if step.value is None or step.low is None or step.high is None:
        return Answer(row.model, case.model.family, case.stack, None, None, None)
    error = step.value / seconds - 1
    familiar = familiarity(case, [other for _, other, _ in predictor.used])
    by_half = None
    if familiar in others and abs(math.log(step.high / step.value)) > 0:
        width = math.log(step.high / step.value) * others[familiar] / shipped().quantiles[familiar]
        by_half = abs(math.log1p(error)) <= width
    return Answer(row.model, case.model.family, case.stack, error, step.low <= seconds <= step.high, by_half)


def shipped() -> Calibration:
    return calibration()


def line(name: str, title: str, left_out: Sequence[Answer]) -> str:
    """A row of the table: mean and median absolute error and coverage of what was answered, in percent."""
    answered = [answer for answer in left_out if answer.error is not None]
    if not answered:
        return f"| {name} | {title} | {len(left_out)} | 0 | | | | |"
    errors = [abs(answer.error or 0.0) for answer in answered]
    cells = [f"{100 * statistics.mean(errors):.1f}", f"{100 * statistics.median(errors):.1f}"]
    for inside in ([one.inside for one in answered], [one.by_half for one in answered if one.by_half is not None]):
        cells.append(f"{100 * statistics.mean(map(bool, inside)):.0f}" if inside else "")
    return f"| {name} | {title} | {len(left_out)} | {len(answered)} | {' | '.join(cells)} |"


SPLITS: tuple[Callable[[Answer], str], ...] = (lambda one: one.family, lambda one: one.stack)


def lines() -> Iterator[str]:
    """The rows of the table, for all figures, each family and each stack."""
    used = usable(table.shipped())
    errors, half = all_errors(used, shipped().coefficients, shipped().scales), half_of(used)
    halves = [
        widths(used, [(name, error) for name, error in errors if half[used[error.index][0].model] == number])
        for number in (0, 1)
    ]
    for name in LEFT_OUT:
        left_out = list(answers(used, name, halves))
        yield line(name, "**all**", left_out)
        for split in SPLITS:
            for group in sorted({split(answer) for answer in left_out}):
                yield line(name, group, [answer for answer in left_out if split(answer) == group])


def write(lines: Sequence[str], begin: str = BEGIN) -> None:
    """Replace the part of the page that begins with a mark."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition(begin)
    text = "\n".join((begin, "", *lines, "", END))
    PAGE.write_text(before + text + after.partition(END)[2], encoding="utf-8")


def main(to_page: bool) -> None:
    """Print the table, and write it into the page if that is asked for."""
    print(f"{HEAD}\n{RULE}")
    rows = []
    for row in lines():
        print(row, flush=True)
        rows.append(row)
    if to_page:
        write([HEAD, RULE, *rows])


if __name__ == "__main__":
    main("--write" in sys.argv)
