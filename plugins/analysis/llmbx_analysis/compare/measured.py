"""A finished run as a comparison needs it: record, result, and the times of its measured steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from llmbx.errors import UsageError
from llmbx.history import refresh_result
from llmbx.history.remeasure import rewindowed
from llmbx.measure.intervals import Interval, exact, over_repeats, over_steps
from llmbx.model import Result, RunSpec, Step
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Record, Run, read_steps


@dataclasses.dataclass(frozen=True)
class Measured:
    """One run and what was measured of it."""

    run: Run
    result: Result
    steps: tuple[Step, ...]

    @property
    def record(self) -> Record:
        """What is known of the run besides its result."""
        return self.run.record

    @property
    def spec(self) -> RunSpec:
        """What was run."""
        return self.run.record.spec

    @property
    def mean_s(self) -> float:
        """The mean step time in seconds."""
        mean = self.result.step_time_s.mean
        assert mean is not None
        return mean

    @property
    def window(self) -> str:
        """The measured steps, as `first-last`."""
        return f"{self.result.window.first}-{self.result.window.last}"


def measured(run: Run, plugins: Plugins, policy: str | None = None, force: bool = False) -> Measured:
    """The run with its result, measured anew under the window `policy` where one is given.

    Raises `UsageError` for a run that goes on, that measured nothing, or (unless forced) whose data is not valid.
    """
    name, result = run.record.run_id, refresh_result(run, plugins)
    if result is None:
        raise UsageError(f"{name} has not ended: compare it when it has")
    if not result.data_valid and not force:
        why = f": {result.cause}" if result.cause else ""
        raise UsageError(f"{name} is no valid measurement ({result.status}{why}); --force compares it all the same")
    steps = read_steps(run.path)
    if policy is not None:
        result = rewindowed(run, result, steps, plugins, policy)
    if result.step_time_s.mean is None:
        where = f"window {result.window.policy}: {result.window.reason}" if result.window.reason else "no step"
        raise UsageError(f"{name} measured nothing ({where})")
    return Measured(run, result, tuple(step for step in steps if inside(step, result)))


def inside(step: Step, result: Result) -> bool:
    """Whether a step is one of those that the result measured."""
    return step.time_s is not None and not step.skipped and result.window.holds(step.number)


def times(run: Measured) -> list[float]:
    """The seconds of the measured steps, in order."""
    return [step.time_s for step in run.steps if step.time_s is not None]


def step_time(runs: Sequence[Measured], level: float) -> Interval:
    """Step time with interval: over the runs where there are several, over the steps of a single one."""
    several = len(runs) > 1
    found = over_repeats([run.mean_s for run in runs], level) if several else over_steps(times(runs[0]), level)
    return found or exact(runs[0].mean_s, level)
