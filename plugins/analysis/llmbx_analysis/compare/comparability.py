"""Check whether two runs are comparable, and what the reader has to know about them.

All reasons why they are not are collected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from llmbx.api import Convention, Reference, Result, RunSpec
from llmbx_verdict.statistics.run_variation import Spread

from .logs import MeasuredLog
from .measured import Measured, MeasuredRun, known_differences, unstable_warnings, work_published
from .metrics import in_convention, unpaired

LOSS_APART = 0.1
"""Relative difference of two losses above which a warning is issued."""


BESIDE = ("whole-run", "outside-steps", "clock-beyond")
"""Checks of the time that the compared steps do not show."""

UNKNOWN = ("work-missing",)
"""Checks that need what a log does not state. It is listed as unknown instead."""


def faults(run: Measured) -> list[str]:
    """Reasons why the figures of one run or log may not be compared with any other."""
    result, name, is_log = run.result, run.name, isinstance(run, MeasuredLog)
    reasons = []
    if not result.data_valid:
        reasons.append(f"{name} has no valid data ({result.status}{f': {result.cause}' if result.cause else ''})")
    if not run.is_measured and not is_log:  # a log has no valid data then
        window = result.window
        where = f"window {window.policy}: {window.reason}" if window.reason else "no step has a time"
        reasons.append(f"{name} has no measured steps ({where})")
    losses = [step.loss for step in run.steps if step.loss is not None]
    if run.steps and not losses and not _prints_no_loss(result):
        reasons.append(f"{name} has no loss in its measured steps: nothing shows that it trained")
    if any(not math.isfinite(loss) for loss in losses):
        reasons.append(f"{name} has a loss that is not finite")
    reasons += _other_batches(run)
    checked = [outcome for outcome in result.checks if outcome.outcome == "not comparable"]
    checked = [outcome for outcome in checked if not (is_log and outcome.check in UNKNOWN)]
    return [*reasons, *(f"{name}: {outcome.text} (check {outcome.check})" for outcome in checked)]


def _other_batches(run: Measured) -> list[str]:
    """A batch size in the log that differs from the requested one; for a log without a run, several sizes."""
    stated = sorted({step.global_batch_size for step in run.steps if step.global_batch_size is not None})
    batches = ", ".join(map(str, stated))
    if isinstance(run, MeasuredRun):
        requested = run.spec.global_batch_size
        if set(stated) - {requested}:
            return [f"the log of {run.name} states a global batch size of {batches}, but {requested} was asked for"]
    elif len(stated) > 1:
        return [f"{run.name} states several global batch sizes ({batches})"]
    return []


def loss_warnings(a: Measured, b: Measured) -> list[str]:
    """A warning if the losses of two runs that should do the same work are far apart."""
    ends = [(run.result.loss.first, run.result.loss.last) for run in (a, b)]
    for name, loss_a, loss_b in zip(("first", "last"), *ends, strict=True):
        both_finite = loss_a is not None and loss_b is not None and math.isfinite(loss_a) and math.isfinite(loss_b)
        if both_finite and abs(loss_a - loss_b) > LOSS_APART * max(abs(loss_a), abs(loss_b)):
            return [f"the {name} losses differ (A {loss_a:.4g}, B {loss_b:.4g}): do both runs train the same?"]
    return []


def _prints_no_loss(result: Result) -> bool:
    """Whether the log format is known to print no loss, as the result's checks state."""
    return any(check.check == "loss-missing" and check.outcome == "not possible" for check in result.checks)


def instrumentation(result: Result) -> list[str]:
    """Reasons why the step time of a run is not its normal speed: it was profiled or traced."""
    name = result.run_id
    return [
        f"{name} was {label}" for label, is_set in (("profiled", result.profiled), ("traced", result.traced)) if is_set
    ]


def convention_mismatch(result: Result, convention: Convention | None) -> list[str]:
    """Why the FLOPs of a result cannot be converted to another attention convention; empty if they can."""
    own = result.mfu.convention
    if (
        own is None
        or convention is None
        or result.mfu.value is None
        or in_convention(result, convention, "mfu") is not None
    ):
        return []
    return [
        f"the FLOPs use different attention conventions ({convention} and {own}) and cannot be converted, because the "
        "FLOPs per sample are unknown"
    ]


def between_runs(a: Measured, b: Measured, profiles: bool = False) -> list[str]:
    """All reasons why two runs or logs (with `profiles`: the profiles of runs) are not comparable."""
    own = [*faults(a), *faults(b)]
    if isinstance(a, MeasuredRun) and isinstance(b, MeasuredRun):
        work = a.spec.work_differences(b.spec)
        if profiles:
            return [*work, *own, *_profile_differences(a.spec, b.spec)]
    else:
        work = known_differences(a.work, b.work)
    counted = convention_mismatch(b.result, a.result.mfu.convention)
    return [
        *work,
        *own,
        *counted,
        *instrumentation(a.result),
        *instrumentation(b.result),
    ]


def _profile_differences(a: RunSpec, b: RunSpec) -> list[str]:
    what = [(spec.profilers, spec.profile and spec.profile.ranks) for spec in (a, b)]
    return [] if what[0] == what[1] else [f"the profilers or profiled ranks differ ({what[0]} and {what[1]})"]


def against_published(run: Measured, reference: Reference) -> list[str]:
    """All reasons why a run or log is not comparable with a published row of its size, dtype, GPU type and scale."""
    counted = convention_mismatch(run.result, reference.convention) if reference.mfu is not None else []
    if isinstance(run, MeasuredRun):
        return [*faults(run), *run.result.not_comparable_because, *run.spec.row_differences(reference), *counted]
    return [*faults(run), *known_differences(work_published(reference), run.work)]


def run_warnings(a: Sequence[Measured], b: Sequence[Measured], spread: Spread) -> tuple[str, ...]:
    """The warnings about two sides of runs; `spread` is that from run to run, for one run on each side."""
    return (
        *_taken_as_repeats(a, "A"),
        *_taken_as_repeats(b, "B"),
        *_prior(a, b, spread),
        *_windows(a, b),
        *_unpaired(a, b),
        *loss_warnings(a[-1], b[-1]),
        *side_warnings(a, "A"),
        *side_warnings(b, "B"),
    )


def side_warnings(runs: Sequence[Measured], side: str) -> tuple[str, ...]:
    """Runs with valid data that did not complete, that are not stable, or whose steps do not tell the whole story."""
    return (*_status(runs, side), *unstable_warnings(side, runs), *_beside_the_window(runs, side))


def _beside_the_window(runs: Sequence[Measured], side: str) -> Iterator[str]:
    for run in runs:
        for outcome in run.result.checks:
            if outcome.check in BESIDE and outcome.outcome == "warning":
                which = f"{run.name}: " if len(runs) > 1 else ""
                yield f"{side}: {which}{outcome.text} (check {outcome.check})"


def _taken_as_repeats(runs: Sequence[Measured], side: str) -> Iterator[str]:
    if len(runs) > 1 and isinstance(runs[-1], MeasuredLog):
        yield f"{side}: {len(runs)} logs of one folder are taken for repeats of one training"


def _prior(a: Sequence[Measured], b: Sequence[Measured], spread: Spread) -> Iterator[str]:
    if len(a) + len(b) != 2:
        return
    if spread.runs:
        groups = f" in {spread.groups} groups" if spread.groups > 1 else ""
        yield (
            f"one run per side: the variation from run to run ({100 * spread.scale:.2g} %) is that of {spread.runs} "
            f"earlier repeats{groups} of this work on this machine"
        )
        return
    logs = any(isinstance(run, MeasuredLog) for run in (*a, *b))
    yield (
        "one run per side: the variation from run to run is not measured, so that of published repeats is used; "
        f"{'a folder with the logs of repeats' if logs else '--repeat'} measures it"
    )


def _windows(a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[str]:
    windows = [{run.window for run in side if run.is_measured} for side in (a, b)]
    if windows[0] != windows[1] and all(windows):
        steps_a, steps_b = (" and ".join(sorted(side)) for side in windows)
        yield f"measured over different steps: A {steps_a}, B {steps_b}; --window sets the same for both"


def _unpaired(a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[str]:
    """Runs of `run --against` whose partner is missing."""
    left = unpaired(a, b)
    if 0 < left < len(a) + len(b):
        yield f"{left} of {len(a) + len(b)} runs have no partner on the other side and do not count"


def _status(runs: Sequence[Measured], side: str) -> Iterator[str]:
    for run in runs:
        if run.result.status != "completed":
            cause = f": {run.result.cause}" if run.result.cause else ""
            yield f"{side}: {run.name} ended with {run.result.status.replace('_', ' ')}{cause}"
