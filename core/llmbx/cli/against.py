"""Alternate a requested run with an earlier one, so that a machine that drifts does not decide between them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ..errors import UsageError
from ..model import Result, RunSpec, Value
from ..record.folder import PairMark, Run
from .flow import Started, interrupted
from .options import Workspace
from .output import print_json

PAIRS = 5
"""Default number of pairs: from four on, an even drift of the machine is removed from the difference."""

Start = Callable[..., Result | Started]


class Job(Value, frozen=True):
    """One of the alternating runs: its specification, its position, and the run that it repeats."""

    spec: RunSpec
    pair: PairMark
    source: str | None

    @property
    def group(self) -> str:
        """The group of the runs of its side."""
        return f"{self.pair.group} {self.pair.side}"


def check(spec: RunSpec, earlier: Run, workspace: Workspace, force: bool) -> None:
    """Raise `UsageError` before anything starts if a comparison could give no verdict."""
    from ..catalog.matching import work_differences
    from ..run.finalize import finalize

    if not workspace.plugins.compares_sides():
        raise UsageError("--against needs a plugin that compares runs, and none is installed")
    reasons = work_differences(earlier.record.spec, spec)
    reasons += [
        f"{name} is profiled or traced"
        for name, one in ((earlier.record.run_id, earlier.record.spec), ("the requested run", spec))
        if one.profile is not None or one.trace is not None
    ]
    result = finalize(earlier, workspace.plugins)
    if result is None:
        reasons.append("it has not ended")
    elif result.status != "completed" or not result.data_valid:
        why = f": {result.cause}" if result.cause else ""
        reasons.append(f"it is {result.status.replace('_', ' ')} or has no valid data{why}")
    if reasons and not force:
        raise UsageError(f"--against {earlier.record.run_id}: not comparable: {'; '.join(reasons)} (--force overrides)")


def jobs(spec: RunSpec, earlier: Run, pairs: int, source: str | None) -> Iterator[Job]:
    """The runs in the order in which they start: A B, B A, A B …, so that neither side is always the second."""
    group = f"against-{os.getpid()}-{int(time.time())}"
    for number in range(1, pairs + 1):
        a = Job(spec=earlier.record.spec, pair=PairMark(group=group, number=number, side="a"),
                source=earlier.record.run_id)  # fmt: skip
        b = Job(spec=spec, pair=PairMark(group=group, number=number, side="b"), source=source)
        yield from (a, b) if number % 2 else (b, a)


def alternate(start: Start, planned: list[Job], workspace: Workspace, tolerance: float, format_: str) -> int:
    """Start the jobs one after the other, compare both sides, print the comparison; return the exit code.

    The first run that fails, or is interrupted, ends the command without a comparison.
    """
    from ..history import find_run
    from ..run.pipeline import exit_code

    done: list[tuple[Job, Result]] = []
    for job in planned:
        place = f"pair {job.pair.number} of {planned[-1].pair.number}, side {job.pair.side.upper()}"
        click.echo(place, err=True)
        result = start(job.spec, source=job.source, group=job.group, pair=job.pair)
        assert isinstance(result, Result)  # --detach is refused
        done.append((job, result))
        if result.step_time_s.mean is not None:
            click.echo(f"{place}: step time {result.step_time_s.mean:.4g} s", err=True)
        if interrupted(result) or exit_code(result) or not result.data_valid:
            if format_ == "json":
                print_json({"results": [one for _, one in done], "comparison": None})
            why = f": {result.cause}" if result.cause else ""
            click.echo(f"no comparison: {result.run_id} ended with {result.status.replace('_', ' ')}{why}", err=True)
            return exit_code(result) or 1
    a, b = (
        [Path(find_run(workspace.install, result.run_id).folder) for job, result in done if job.pair.side == side]
        for side in ("a", "b")
    )
    outcome = workspace.plugins.compare_sides(a, b, tolerance)
    if format_ == "json":
        print_json({"results": [result for _, result in done], "comparison": outcome.data})
    else:
        click.echo(outcome.text, nl=False)
    return outcome.exit_code
