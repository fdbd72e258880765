"""The members of a side of a comparison: finished runs and logs, each with its result and its measured steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from llmbx.api import Result, RunSpec, Scalar, Step, UsageError
from llmbx.api.verbs import Plugins, Run, refresh_result
from llmbx.api.verbs import RunRecord as Record
from llmbx_verdict.statistics import intervals

from .work import work_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """One training with its result and its measured steps."""

    result: Result
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """What messages call it: the id of a run, the path of a log."""
        return self.result.run_id

    @property
    def work(self) -> Mapping[str, Scalar]:
        """What is known of its work, by the keys of `work.WORK`."""
        raise NotImplementedError

    @property
    def unknown(self) -> tuple[str, ...]:
        """The keys of `work.DECISIVE` whose values are unknown."""
        return ()

    @property
    def is_measured(self) -> bool:
        """Whether it has a mean step time that is a time."""
        mean = self.result.step_time_s.mean
        return mean is not None and math.isfinite(mean) and mean > 0

    @property
    def mean_s(self) -> float:
        """The mean step time in seconds. It must be measured."""
        mean = self.result.step_time_s.mean
        assert mean is not None
        return mean

    @property
    def window(self) -> str:
        """The measured steps, as `first-last`."""
        return f"{self.result.window.first}-{self.result.window.last}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredRun(Measured):
    """One finished run of llmbx."""

    run: Run

    @property
    def name(self) -> str:
        """The id of the run."""
        return self.record.run_id

    @property
    def record(self) -> Record:
        """The record of the run."""
        return self.run.record

    @property
    def spec(self) -> RunSpec:
        """The specification of the run."""
        return self.run.record.spec

    @property
    def work(self) -> Mapping[str, Scalar]:
        """What was run."""
        return work_of(self.spec)


def measured(run: Run, plugins: Plugins, policy: str | None = None) -> MeasuredRun:
    """Read a run with its result. If `policy` is set, the result is recomputed with this window.

    Raises `UsageError` if the run has not ended, or if its file of steps has an impossible time.
    """
    result = refresh_result(run, plugins, policy)
    if result is None:
        raise UsageError(f"{run.record.run_id} has not ended")
    steps = run.read_steps()
    side = MeasuredRun(run=run, result=result, steps=tuple(step for step in steps if inside(step, result)))
    _check_times(side)
    return side


def _check_times(run: Measured) -> None:
    """Raise `UsageError` if the times of the steps cannot have the mean of the result."""
    seconds = times(run)
    if run.is_measured and seconds and (min(seconds) < 0 or max(seconds) == 0):
        raise UsageError(f"{run.name}: steps.jsonl is damaged: steps took {min(seconds):g} s")


def inside(step: Step, result: Result) -> bool:
    """Whether the step is one of the measured steps of the result."""
    return step.time_s is not None and not step.skipped and result.window.holds(step.number, step.covers)


def times(run: Measured) -> list[float]:
    """The times of the measured steps in seconds, in order."""
    return [step.time_s for step in run.steps if step.time_s is not None]


def step_time(runs: Sequence[Measured], level: float) -> intervals.Interval:
    """Mean step time with its interval: over the runs if there are several, else over the steps of the run.

    All runs must be measured.
    """
    if len(runs) > 1:
        interval = intervals.over_repeats([run.mean_s for run in runs], level)
    else:
        interval = intervals.over_steps(times(runs[0]), level)
    return interval or intervals.exact(runs[0].mean_s, level)
