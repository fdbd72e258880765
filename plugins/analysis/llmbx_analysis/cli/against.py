"""`llmbx run --against`: alternate a requested run with an earlier one, and compare both sides.

The runs alternate so that a machine that drifts does not decide between the sides.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from llmbx.api import Result, RunSpec, UsageError, Value
from llmbx.api.verbs import RUN_ARGUMENT, Extension, print_json

if TYPE_CHECKING:
    from llmbx.api.verbs import Run, RunCall

PAIRS = 5
"""Default number of pairs: from four on, an even drift of the machine is removed from the difference."""


class Job(Value, frozen=True):
    """One of the alternating runs: its specification, its pair (from 1) and side, and the run that it repeats."""

    spec: RunSpec
    pair: int
    side: Literal["a", "b"]
    source: str | None


class Against(Extension):
    """The options `--against` and `--interleave` of `llmbx run`."""

    options = (
        click.Option(
            ["--against"], metavar="RUN", type=RUN_ARGUMENT,
            help="Run an earlier run again, too, alternating with this one, and compare both.",
        ),
        click.Option(
            ["--interleave"], metavar="N", type=click.IntRange(min=1),
            help="Number of pairs of runs with --against.  [default: 5]",
        ),
    )  # fmt: skip
    text = """--against RUN starts the configuration of an earlier run and this one in turn (A B, B A, A B …), N pairs,
so that a machine that drifts does not decide. The differences of the pairs are compared as `llmbx compare` does, with
its verdicts and exit codes; JSON is an object with results and comparison."""
    example = "llmbx run llama3.1 --set tp=2 --against last --interleave 6"

    def act(self, call: RunCall, values: Mapping[str, Any]) -> int | None:
        """Alternate and compare; for a preview, refuse what this would refuse and say which side is shown."""
        against, pairs = values["against"], values["interleave"] or PAIRS
        if against is None:
            raise UsageError("--interleave needs --against RUN")
        _refuse_others(call)
        earlier = call.earlier(against)
        check(call, earlier)
        if call.preview:
            click.echo(f"this is side B; side A repeats {earlier.record.run_id}", err=True)
            return None
        return alternate(call, list(jobs(call.spec, earlier, pairs, call.source)))


AGAINST = Against()


def check(call: RunCall, earlier: Run) -> None:
    """Raise `UsageError` before anything starts if a comparison could give no verdict, unless the run is forced."""
    from llmbx.api.verbs import refresh_result

    reasons = earlier.record.spec.work_differences(call.spec)
    reasons += [
        f"{name} is profiled or traced"
        for name, spec in ((earlier.record.run_id, earlier.record.spec), ("the requested run", call.spec))
        if spec.profile is not None or spec.trace is not None
    ]
    result = refresh_result(earlier, call.workspace.plugins)
    if result is None:
        reasons.append("it has not ended")
    elif result.status != "completed" or not result.data_valid:
        why = f": {result.cause}" if result.cause else ""
        reasons.append(f"it is {result.status.replace('_', ' ')} or has no valid data{why}")
    if reasons and not call.force:
        name = earlier.record.run_id
        raise UsageError(f"--against {name}: not comparable: {'; '.join(reasons)} (--force overrides)")


def jobs(spec: RunSpec, earlier: Run, pairs: int, source: str | None) -> Iterator[Job]:
    """The runs in the order in which they start: A B, B A, A B …, so that neither side is always the second."""
    for pair in range(1, pairs + 1):
        a = Job(spec=earlier.record.spec, pair=pair, side="a", source=earlier.record.run_id)
        b = Job(spec=spec, pair=pair, side="b", source=source)
        yield from (a, b) if pair % 2 else (b, a)


def alternate(call: RunCall, planned: Sequence[Job]) -> int:
    """Start the jobs one after the other, compare both sides, print the comparison; return the exit code.

    The first run that fails, or is interrupted, ends the command without a comparison.
    """
    group = f"against-{os.getpid()}-{int(time.time())}"
    done: list[tuple[Job, Result]] = []
    for job in planned:
        place = f"pair {job.pair} of {planned[-1].pair}, side {job.side.upper()}"
        click.echo(place, err=True)
        result, code = call.start(job.spec, job.source, group, (job.pair, job.side))
        done.append((job, result))
        if result.step_time_s.mean is not None:
            click.echo(f"{place}: step time {result.step_time_s.mean:.4g} s", err=True)
        if code or not result.data_valid:
            return _without_comparison(call, [result for _, result in done], code or 1)
    return _compared(call, done)


def _without_comparison(call: RunCall, results: Sequence[Result], code: int) -> int:
    failed = results[-1]
    if call.format == "json":
        print_json({"results": results, "comparison": None})
    why = f": {failed.cause}" if failed.cause else ""
    click.echo(f"no comparison: {failed.run_id} ended with {failed.status.replace('_', ' ')}{why}", err=True)
    return code


def _compared(call: RunCall, done: Sequence[tuple[Job, Result]]) -> int:
    """Compare both sides, print the comparison and return its exit code."""
    import msgspec

    from ..compare.folders import compare_folders
    from ..compare.render import render

    find, install = call.workspace.plugins.find_run, call.workspace.install
    a, b = ([find(install, result.run_id).path for job, result in done if job.side == side] for side in ("a", "b"))
    comparison = compare_folders(a, b, call.allowed, install)
    if call.format == "json":
        results = [result for _, result in done]
        print_json({"results": results, "comparison": msgspec.to_builtins(comparison)})
    else:
        click.echo(render(comparison), nl=False)
    return comparison.exit_code


def _refuse_others(call: RunCall) -> None:
    """Refuse the options of `llmbx run` that ask for another number of jobs, or for another output."""
    if call.format not in ("text", "json"):
        compare = f"llmbx compare --format {call.format}"
        raise UsageError(f"--format {call.format} cannot be combined with --against: use `{compare}`")
    if call.preview == "--emit-script":
        raise UsageError("--against starts several jobs in turn: it cannot be combined with --emit-script")
    if call.repeat > 1 or call.detach:
        option = "--detach" if call.detach else "--repeat: use --interleave"
        raise UsageError(f"--against cannot be combined with {option}")
