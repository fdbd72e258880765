"""Rules for what the ranks themselves noted: collections of garbage, checkpoints, evaluations, compilations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .budget import Part
from .case import Case
from .clocks import Floats
from .finding import Finding, Line
from .ranks import waits_least

KINDS = ("checkpoint", "evaluation", "garbage-collection", "compile")
BETWEEN_STEPS = ("checkpoint", "evaluation")
LARGE = 0.25
"""Share of the longest mark from which a step counts as one with it."""
MOST_NAMED = 4
"""Steps that are named in a line of evidence."""


def noted(case: Case) -> Iterator[Finding]:
    """Yield a finding for each kind of mark."""
    for kind in KINDS:
        marks = case.run.marks.get(kind)
        if marks is not None and marks.any():
            times = _cost(case, kind, marks)
            row = case.alone(times) if (times == marks).all() else None
            yield Finding(id=kind, part=Part(own=times), lines=_lines(case, kind, marks, times), row=row)


def _cost(case: Case, kind: str, marks: Floats) -> Floats:
    """What is between steps keeps all ranks: the longer time until the next step counts, on each."""
    if kind not in BETWEEN_STEPS:
        return marks
    outside, steps = case.clocks.phases["outside"], marks.any(axis=0)
    usual = np.median(outside[:, ~steps], axis=1) if (~steps).any() else np.zeros(len(outside))
    longer = np.maximum(0, outside - usual[:, None])
    between = steps & (longer.max(axis=0) >= 0.5 * marks.max(axis=0))
    return np.where(between, longer, marks)


def _lines(case: Case, kind: str, marks: Floats, times: Floats) -> list[Line]:
    rows = np.flatnonzero(marks.any(axis=1))
    places = np.flatnonzero(marks.any(axis=0))
    row, steps = int(rows[0]), case.clocks.step[places]
    shown = ", ".join(str(int(step)) for step in steps[:MOST_NAMED]) + (", …" if len(steps) > MOST_NAMED else "")
    file = f"step_clocks/rank-{case.clocks.ranks[row]}.marks"
    taken = f"{len(places)} times in {len(case.clocks.step)} steps, {marks[:, places].max(axis=0).mean():.3g} s each"
    lines = [Line("program", f"{file}: {kind} {taken} (zero-based steps {shown})")]
    large = marks.max(axis=0) > LARGE * marks.max()
    period = case.clocks.period
    slower = float(period[large].mean() - period[~large].mean()) if (~large).sum() > 2 else 0.0
    if slower > 0.3 * times.max(axis=0)[large].mean():
        text = f"step_clocks: steps with it take {slower:.3g} s longer than the others"
        lines.append(Line("clock", text))
    elif case.excess[row].mean() > case.least_s:
        lines.append(waits_least(case, row))
    return lines
