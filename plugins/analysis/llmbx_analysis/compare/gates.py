"""Another gate than the step time: a figure that profilers read from what both runs left."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llmbx.errors import UsageError, did_you_mean
from llmbx.measure.intervals import Change, Interval, exact, over_repeats, over_steps
from llmbx.model import Figure
from llmbx.plugins.manager import Plugins

from .measured import Measured
from .values import Metric, Verdict
from .verdict import interval, judge

STEP_TIME = "step_time"


class Gate:
    """The figure `name` of both sides, each one run or several repeats. Raises `UsageError` where a run lacks it."""

    def __init__(self, name: str, a: Sequence[Measured], b: Sequence[Measured], plugins: Plugins, level: float) -> None:
        sides = [[_figure(name, run, plugins) for run in side] for side in (a, b)]
        self.figure = sides[1][-1]
        self._a, self._b = (_interval(side, level) for side in sides)
        self._of = sides[0][-1].step_s
        self._level, self._repeats = level, len(a) + len(b) > 2

    @property
    def change(self) -> Change:
        """By which part of A's step (or of A's figure, where it is no part of one) B's figure is larger.

        The limits of the difference are recovered from those of both means (see `confidence.change`).
        """
        a, b, whole = self._a, self._b, self._of or self._a.mean
        if not whole:
            raise UsageError(f"{self._words} is 0 in A: there is nothing to hold B's against")
        difference = b.mean - a.mean
        return Change(
            fraction=difference / whole,
            low=(difference - math.hypot(b.mean - b.low, a.high - a.mean)) / whole,
            high=(difference + math.hypot(b.high - b.mean, a.mean - a.low)) / whole,
            level=self._level,
            over="repeats" if self._repeats else "steps",
        )

    def judge(self, tolerance: float) -> tuple[Verdict, str, Change]:
        """The verdict, its reason and the change. `tolerance` is a part of a step, or of the figure itself."""
        found = self.change
        size = f"{100 * abs(found.fraction):.1f} % {'of a step ' if self._of else ''}"
        told = f"{self._words} takes {size}{'more' if found.fraction > 0 else 'less'} ({interval(found)})"
        worse = found if self.figure.better == "lower" else _turned(found)
        return (*judge(worse, tolerance, told), found)

    @property
    def metric(self) -> Metric:
        """The line of the table."""
        a, b, figure = self._a.mean, self._b.mean, self.figure
        change = 100 * (b / a - 1) if a else None
        note = f"profiled steps of {self._of:.4g} s" if self._of else None
        return Metric(name=figure.name, unit=figure.unit, better=figure.better, a=a, b=b, change_percent=change,
                      note=note)  # fmt: skip

    @property
    def _words(self) -> str:
        return self.figure.name.replace("_", " ")


def names(run: Measured, plugins: Plugins) -> dict[str, Figure]:
    """The figures that the run's profilers have of it, by name."""
    found = [
        figure
        for profiler in run.spec.profilers
        for answer in plugins.ask(profiler, "figures", spec=run.spec, run_dir=run.run.path) or []
        for figure in answer
    ]
    return {figure.name: figure for figure in found if figure.values}


def _figure(name: str, run: Measured, plugins: Plugins) -> Figure:
    found = names(run, plugins)
    if name in found:
        return found[name]
    known = [STEP_TIME, *found]
    raise UsageError(f"--gate {name}: {run.record.run_id} has no such figure{did_you_mean(name, known)}")


def _interval(side: Sequence[Figure], level: float) -> Interval:
    """Over the runs where there are several, else over the steps of the only one."""
    means = [math.fsum(figure.values) / len(figure.values) for figure in side]
    found = over_repeats(means, level) if len(side) > 1 else over_steps(side[0].values, level)
    return found or exact(means[-1], level)


def _turned(change: Change) -> Change:
    return change.replace(fraction=-change.fraction, low=-change.high, high=-change.low)
