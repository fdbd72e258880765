"""The members of a side: finished runs and logs, with result, measured steps, machines and stability."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from llmbx.api import (
    Exit,
    Reference,
    Result,
    RunSpec,
    Scalar,
    Step,
    UsageError,
    Value,
)
from llmbx.api.verbs import Plugins, Run, refresh_result
from llmbx.api.verbs import RunRecord as Record
from llmbx_verdict.statistics import intervals, series

from ..nodes import host_names, shared_facts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured(ABC):
    """One training with its result and its measured steps."""

    result: Result
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """What messages call it: the id of a run, the path of a log."""
        return self.result.run_id

    @property
    @abstractmethod
    def work(self) -> Mapping[str, Scalar]:
        """What is known of its work, by the keys of `work.WORK`."""

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


WORK = {
    "workload": "workload",
    "size": "size",
    "dtype": "dtype",
    "gpu_type": "GPU type",
    "gpus": "number of GPUs",
    "global_batch_size": "global batch size",
    "sequence_length": "sequence length",
    "tokens_per_step": "number of tokens in a step",
}
"""What is compared if both sides know it, and how messages call it."""

DECISIVE = {
    **{key: label for key, label in WORK.items() if key != "tokens_per_step"},  # this follows from two others
    "model": "shape of the model",
    "instrumentation": "profiling and tracing",
}
"""What decides whether two sides are comparable. Of runs all of it is known."""


def work_of(spec: RunSpec) -> Mapping[str, Scalar]:
    """The work of a run."""
    own = {key: getattr(spec, key) for key in WORK if key != "sequence_length"}
    return {**own, "sequence_length": spec.model.sequence_length}


def work_published(row: Reference) -> Mapping[str, Scalar]:
    """The work of a published row, as far as it is published."""
    return {key: getattr(row, key) for key in WORK if key not in ("workload", "tokens_per_step")}


def known_differences(a: Mapping[str, Scalar], b: Mapping[str, Scalar]) -> list[str]:
    """How the work differs, as far as both sides know it."""
    both = [key for key in WORK if a.get(key) is not None and b.get(key) is not None]
    return [f"the {WORK[key]} differs ({a[key]} and {b[key]})" for key in both if a[key] != b[key]]


def unknown_text(a: Sequence[str], b: Sequence[str]) -> str | None:
    """One line with what is not known of which side; None if everything is."""
    sides = {key: tuple(name for name, keys in (("A", a), ("B", b)) if key in keys) for key in DECISIVE}
    parts = [
        f"{', '.join(DECISIVE[key] for key in DECISIVE if sides[key] == which)} ({' and '.join(which)})"
        for which in dict.fromkeys(which for which in sides.values() if which)
    ]
    return f"unknown: {'; '.join(parts)}" if parts else None


FALSE_ALARMS = 0.05
"""Largest share of stable windows that the tests of stability call unstable (see docs/stability.md)."""

COVERED = ("noisy", "too few steps")
"""Verdicts of a window that say how little one run tells. The variation between the means of repeats contains this."""


def why(run: Measured) -> str | None:
    """Why the window of a run is unstable; None if it is stable."""
    stability = run.result.stability
    if stability.verdict in (None, "stable"):
        return None
    return f"{stability.verdict}: {stability.reason or 'no reason is recorded'}"


def unstable(name: str, runs: Sequence[Measured]) -> str | None:
    """Why a side is unstable; None if it is stable.

    One run must be stable. Of several repeats, as many may be unstable as false alarms explain, and windows with few or
    noisy steps do not count: both are in the variation between their means.
    """
    counted = [run for run in runs if len(runs) == 1 or run.result.stability.verdict not in COVERED]
    unstable_runs = [(run, reason) for run in counted if (reason := why(run)) is not None]
    if len(unstable_runs) < _limit(len(runs)):
        return None
    run, reason = unstable_runs[-1]
    many = f"{len(unstable_runs)} of {len(runs)} repeats are" if len(runs) > 1 else f"{run.name} is"
    return f"{name}: {many} unstable ({reason.partition(':')[0]})"


OF_SINGLE_STEPS = ("outliers", "noisy")
"""Verdicts of a window whose median represents it: some steps, or chance, move the mean."""


def by_median(a: Sequence[Measured], b: Sequence[Measured]) -> bool:
    """Whether the medians of two runs are compared: single steps make a window unstable, and nothing else does.

    Only for a mini or one GPU, whose short steps other programs of the machine disturb. The slow steps of several GPUs
    that wait for each other are part of their work.
    """
    runs = (*a, *b)
    verdicts = {run.result.stability.verdict for run in runs}
    return (
        len(a) == len(b) == 1
        and all(isinstance(run, MeasuredRun) and (run.spec.mini or run.spec.gpus == 1) for run in runs)
        and bool(verdicts & {*OF_SINGLE_STEPS})
        and verdicts <= {"stable", *OF_SINGLE_STEPS}
    )


def step_times(
    a: Sequence[Measured], b: Sequence[Measured], level: float
) -> tuple[intervals.Interval, intervals.Interval]:
    """The step times of both sides that are compared, with their intervals: means, or medians (`by_median`)."""
    if by_median(a, b):
        medians = [intervals.median_over_steps(times(run), level) for run in (*a, *b)]
        if medians[0] and medians[1]:
            return medians[0], medians[1]
    return step_time(a, level), step_time(b, level)


def more_slow_steps(a: Measured, b: Measured) -> str | None:
    """How the shares of slow steps of two runs differ, if by more than chance; their medians do not tell it.

    Fisher's exact test, two-sided, at 1 %.
    """
    counts = [(_slow(run), len(times(run))) for run in (a, b)]
    (slow_a, all_a), (slow_b, all_b) = counts
    slow, steps = slow_a + slow_b, all_a + all_b

    def ways(in_a: int) -> int:
        return math.comb(slow, in_a) * math.comb(steps - slow, all_a - in_a)

    rarer = [ways(n) for n in range(slow + 1) if 0 <= all_a - n <= steps - slow and ways(n) <= ways(slow_a)]
    if sum(rarer) > RARE * math.comb(steps, all_a):
        return None
    return f"A has {slow_a} slow steps of {all_a}, B {slow_b} of {all_b}"


def _slow(run: Measured) -> int:
    return sum(outlier.ratio > 1 for outlier in series.outliers(run.steps))


RARE = 0.01
"""Probability of a difference of slow steps by chance, below which it counts."""


def unstable_warnings(name: str, runs: Sequence[Measured]) -> Iterator[str]:
    """One line for each unstable run of a side."""
    for run in runs:
        if (reason := why(run)) is not None:
            which = f"{run.name}: " if len(runs) > 1 else ""
            yield f"{name}: {which}{reason}"


def _limit(count: int) -> int:
    """The smallest number of unstable runs among `count` that is not explained by false alarms."""
    limit, at_least = 1, 1 - (1 - FALSE_ALARMS) ** count
    while at_least > FALSE_ALARMS + 1e-12:
        at_least -= math.comb(count, limit) * FALSE_ALARMS**limit * (1 - FALSE_ALARMS) ** (count - limit)
        limit += 1
    return limit


class Machines(Value, frozen=True):
    """The nodes of one side and their facts by name (`driver`, `gpu_power_limit_w` …); empty if unknown."""

    nodes: tuple[str, ...] = ()
    facts: dict[str, Scalar] = {}


def machines_of(runs: Sequence[MeasuredRun]) -> Machines:
    """The machines of all runs of a side. The facts are those of the newest run.

    If a run has no node files, its machine is the host of its job script, which is the first of its nodes.
    """
    seen = [run.run.read_nodes() for run in runs]
    scripts = [Exit.read(run.run.path) for run in runs]
    hosts = {name for nodes in seen for name in host_names(nodes)} or {end.host for end in scripts if end is not None}
    return Machines(nodes=tuple(sorted(hosts)), facts=shared_facts(seen[-1]) if seen else {})
