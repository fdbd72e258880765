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

from folds import Error, Used, all_errors, groups, of_stacks, widths

from llmbx_prediction.atlas import table
from llmbx_prediction.atlas.row import Row
from llmbx_prediction.case import Case
from llmbx_prediction.prediction import Predictor
from llmbx_prediction.regression.shipped import OWN_LAYOUT, Calibration, calibration, familiarity, usable

PAGE = Path(__file__).parents[2] / "docs" / "prediction.md"
BEGIN, END = "<!-- by_group.py -->", "<!-- end -->"
LEFT_OUT = ("model", "GPU", "family", "stack", "release", "organization")
HEAD = (
    "| left out | figures of | n | answered | groups | mean | median | interval holds | by the other half "
    "| 95 % of it |"
)
RULE = "|---|---|---|---|---|---|---|---|---|---|"


class Answer(NamedTuple):
    """The answer for one figure: what it is a figure of, the relative error of the step time, and whether the interval
    contains it by the factors that ship and by those of the other half. Unknown is None.
    """

    group: Hashable
    family: str
    stack: str
    error: float | None
    inside: bool | None
    by_half: bool | None


def answers(used: Used, name: str, halves: Sequence[Calibration]) -> Iterator[Answer]:
    """The answers for all figures, each without the figures of its group."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    keys = groups(used, name)
    for index, key in enumerate(keys):
        members[key].append(index)
    half = half_of(used)
    for key, inside in members.items():
        predictor = Predictor([row for index, (row, *_) in enumerate(used) if keys[index] != key])
        for index in inside:
            yield _answer(predictor, used[index], key, halves[1 - half[used[index][0].model]])


def half_of(used: Used) -> dict[str, int]:
    """The half of each model: every second one by name within its family."""
    names = sorted({(case.model.family, row.model) for row, case, _ in used})
    return {model: number % 2 for number, (_, model) in enumerate(names)}


def _answer(predictor: Predictor, figure: tuple[Row, Case, float], group: Hashable, other: Calibration) -> Answer:
    _, case, seconds = figure
    step = predictor.predict(case, "").step_time_s
    if step.value is None or step.low is None or step.high is None:
        return Answer(group, case.model.family, case.stack, None, None, None)
    error = step.value / seconds - 1
    familiar = familiarity(case, [published for _, published, _ in predictor.used])
    by_half, width = None, other.width(case, familiar)
    if width is not None:
        half_width = math.log(step.high / step.value) * width / (shipped().width(case, familiar) or math.inf)
        by_half = abs(math.log1p(error)) <= half_width
    return Answer(group, case.model.family, case.stack, error, step.low <= seconds <= step.high, by_half)


def shipped() -> Calibration:
    return calibration()


def line(name: str, title: str, left_out: Sequence[Answer]) -> str:
    """A row of the table: mean and median absolute error and coverage of what was answered, in percent."""
    answered = [answer for answer in left_out if answer.error is not None]
    if not answered:
        return f"| {name} | {title} | {len(left_out)} | 0 | | | | | | |"
    errors = [abs(answer.error or 0.0) for answer in answered]
    cells = [str(len({answer.group for answer in answered}))]
    cells += [f"{100 * statistics.mean(errors):.1f}", f"{100 * statistics.median(errors):.1f}"]
    for inside in ([one.inside for one in answered], [one.by_half for one in answered if one.by_half is not None]):
        cells.append(f"{100 * statistics.mean(map(bool, inside)):.0f}" if inside else "")
    cells.append(binomial(sum(bool(answer.inside) for answer in answered), len(answered)))
    return f"| {name} | {title} | {len(left_out)} | {len(answered)} | {' | '.join(cells)} |"


NORMAL = 1.96
"""Standard deviations of a normal distribution that hold 95 %."""


def binomial(hits: int, count: int) -> str:
    """The 95 % interval of a share in percent (Wilson), as if figures were independent."""
    share, spread = hits / count, NORMAL**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = NORMAL * math.sqrt(share * (1 - share) / count + spread / count / 4) / (1 + spread)
    return f"{100 * max(0.0, middle - half):.0f} to {100 * min(1.0, middle + half):.0f}"


SPLITS: tuple[Callable[[Answer], str], ...] = (lambda one: one.family, lambda one: one.stack)


def lines() -> Iterator[str]:
    """The rows of the table, for all figures, each family and each stack."""
    used = usable(table.shipped())
    errors, half = all_errors(used, shipped().coefficients, shipped().scales), half_of(used)
    halves = [
        _by(used, [(name, error) for name, error in errors if half[used[error.index][0].model] == number])
        for number in (0, 1)
    ]
    for name in LEFT_OUT:
        left_out = list(answers(used, name, halves))
        yield line(name, "**all**", left_out)
        for split in SPLITS:
            for group in sorted({split(answer) for answer in left_out}):
                yield line(name, group, [answer for answer in left_out if split(answer) == group])


def _by(used: Used, errors: Sequence[tuple[str, Error]]) -> Calibration:
    """The calibration with the factors that these errors give."""
    factors = widths(used, errors)
    own = {OWN_LAYOUT: shipped().quantiles[OWN_LAYOUT]}
    return shipped().replace(quantiles=factors | own, stacks=of_stacks(used, errors, factors))


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
