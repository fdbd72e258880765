"""Warnings of a comparison: what the reader has to know about the runs of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .comparability import loss_warnings
from .logs import MeasuredLog
from .measured import Measured
from .pairs import unpaired
from .unstable import unstable_warnings


def run_warnings(a: Sequence[Measured], b: Sequence[Measured]) -> tuple[str, ...]:
    """The warnings about two sides of runs."""
    return (
        *_taken_as_repeats(a, "A"),
        *_taken_as_repeats(b, "B"),
        *_prior(a, b),
        *_windows(a, b),
        *_unpaired(a, b),
        *loss_warnings(a[-1], b[-1]),
        *side_warnings(a, "A"),
        *side_warnings(b, "B"),
    )


def side_warnings(runs: Sequence[Measured], side: str) -> tuple[str, ...]:
    """Runs with valid data that did not complete, and runs that are not stable."""
    return (*_status(runs, side), *unstable_warnings(side, runs))


def _taken_as_repeats(runs: Sequence[Measured], side: str) -> Iterator[str]:
    if len(runs) > 1 and isinstance(runs[-1], MeasuredLog):
        yield f"{side}: {len(runs)} logs of one folder are taken for repeats of one training"


def _prior(a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[str]:
    if len(a) + len(b) == 2:
        logs = any(isinstance(run, MeasuredLog) for run in (*a, *b))
        yield (
            "one run per side: the variation from run to run is not measured, so that of published repeats is used; "
            f"{'a folder with the logs of repeats' if logs else '--repeat'} measures it"
        )


def _windows(a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[str]:
    windows = [{run.window for run in side if run.is_measured} for side in (a, b)]
    if windows[0] != windows[1] and all(windows):
        one, two = (" and ".join(sorted(side)) for side in windows)
        yield f"measured over different steps: A {one}, B {two}; --window sets the same for both"


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
