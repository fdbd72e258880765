"""Compare a run or a log with another one, a baseline or a published figure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import UsageError
from llmbx.api.verbs import (
    RUN_ARGUMENT,
    OutputPath,
    Run,
    Workspace,
    format_option,
    load_workspace,
    print_json,
    print_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmbx.api import Scalar, TrainingLog

    from ..compare import Comparison, Measured

FORMATS = ("table", "json", "csv")
"""The formats of rows; those of plugins have test cases."""

COLUMNS = ("name", "unit", "a", "b", "change_percent", "note")


@click.command("compare")
@click.argument("runs", nargs=-1, metavar="[A] B", type=RUN_ARGUMENT)
@click.option("--baseline", metavar="TAG", help="Compare with the newest comparable run that has this tag.")
@click.option("--reference", is_flag=True, help="Compare with the published figures for this configuration.")
@click.option("--tolerance", default="5%", show_default=True, help="Largest change that counts as equivalent.")
@click.option(
    "--detect",
    metavar="PERCENT",
    help="Require that the data would show a difference of this size; else the verdict is inconclusive.",
)
@click.option(
    "--gate",
    metavar="METRIC",
    default="step_time",
    show_default=True,
    help="Metric that decides the verdict, for example exposed_communication for profiled runs.",
)
@click.option(
    "--measure", metavar="NAME", help="Measure of the log format that decides the verdict, for example images."
)
@click.option("--window", metavar="A-B|last|auto", help="Measure both sides over these steps.")
@click.option("--single", is_flag=True, help="Use only the named runs, without their repeats.")
@click.option("--workload", metavar="NAME", help="Workload of the logs, which do not say it.")
@click.option("--size", metavar="SIZE", help="Model size of the logs.")
@click.option("--dtype", metavar="DTYPE", help="Data type of the logs.")
@click.option("--gpu-type", metavar="TYPE", help="GPU type of the logs.")
@click.option("--gpus", metavar="N", type=click.IntRange(min=1), help="Number of GPUs of the logs.")
@click.option("--html", "page", type=OutputPath(), metavar="FILE", help="Also write the comparison as an HTML page.")
@click.option("--force", is_flag=True, help="Show the figures of runs that are not comparable, without a verdict.")
@format_option(cases=True)
def command(
    runs: tuple[str, ...], baseline: str | None, reference: bool, tolerance: str, window: str | None, single: bool,
    force: bool, format_: str, gate: str, measure: str | None, page: Path | None, detect: str | None, **stated: Any,
) -> None:  # fmt: skip
    """Compare run or log B with A, a baseline or a published figure.

    A run is given by its id, a unique prefix of it, its folder, its job id or `last`. With --baseline and --reference,
    B defaults to `last`. `@TAG` is the newest valid run with this tag that is comparable with the other side. The
    repeats of a run are included.

    A log is given by its path; - is standard input. The logs (*.out) of a folder are taken for repeats of one training.
    The window is --window, else that of the run on the other side, else that of the logs' recipe or `auto`. What
    decides whether both sides are comparable, but is not in a log, is listed as unknown: --workload, --size, --dtype,
    --gpu-type and --gpus state it for all logs, and choose the figure for --reference.

    The output lists what differs between both sides, then the figures, which differences the data can show and how many
    runs would show 1 and 2 % (--detect requires one), then the verdict on B: `faster` or `slower` if the 95 % interval
    of the change lies beyond --tolerance, `equivalent` if it lies within, else `inconclusive`, with what would decide.
    The interval contains the variation from run to run: that of the repeats, or, for one run on each side, that of
    earlier repeats on this machine, else of published ones. Median and 95th percentile are compared, too. A side with
    an unstable window is inconclusive; minis and runs on one GPU are then compared by their medians.

    Runs are not comparable if they differ in batch size, sequence length, dtype, model or number of GPUs, if one has no
    valid data or no loss, was profiled or traced, or ran on other hardware, or if a mini is compared with a published
    figure. --force shows their figures, but no verdict. MFU is converted to one attention convention.

    --html FILE also writes a page with the verdict, the distributions of both sides on one axis, and the differences.

    --gate METRIC compares profiled and traced runs by a metric of their profilers, such as exposed_communication.
    --tolerance is then a fraction of the step time.

    --measure NAME compares by a measure that the log format declares; a count by its rate per second. --tolerance is a
    fraction of the measure. Runs are not comparable if one lacks it.

    The exit code is 0 for equivalent and faster, 3 for slower, 5 for inconclusive and not comparable. --format junit
    prints JUnit XML with a test case for each metric; that of --gate has the verdict.

    \b
    Examples:
      llmbx compare pretraining_grok1_mini_bf16_1_1795260605 last
      llmbx compare --baseline accepted --tolerance 2%
      llmbx compare last --baseline accepted --detect 2%
      llmbx compare last --reference --format json
      llmbx compare last --baseline accepted --html comparison.html
      llmbx compare before.log after.log --window 20-44
    """
    allowed, to_detect, policy = _limits(tolerance, detect, window)
    _check_usage(runs, baseline, reference, gate, measure)
    workspace = load_workspace()
    of_logs = {key: value.lower() if isinstance(value, str) else value for key, value in stated.items() if value}
    measured = _measured(runs or ("last",), workspace, policy, single, of_logs)
    chosen = _sides(measured, workspace, baseline, policy, reference)
    if reference:
        comparison = _compare_with_published(chosen[-1], workspace, allowed, force, to_detect)
    else:
        comparison = _compare(chosen, workspace, baseline, allowed, force, gate, measure, to_detect)
    _print(comparison, format_)
    if page is not None:
        _write_page(page, comparison, chosen)
    click.get_current_context().exit(comparison.exit_code)


def _limits(tolerance: str, detect: str | None, window: str | None) -> tuple[float, float | None, str | None]:
    """Tolerance and difference to detect as fractions, and the window. Raises `UsageError` for an invalid one."""
    from llmbx.api.verbs import check_window, parse_fraction

    return (
        parse_fraction(tolerance, "--tolerance"),
        parse_fraction(detect, "--detect") if detect is not None else None,
        check_window(window) if window is not None else None,
    )


def _check_usage(runs: tuple[str, ...], baseline: str | None, reference: bool, gate: str, measure: str | None) -> None:
    if measure is not None and gate != "step_time":
        raise UsageError("--measure cannot be combined with --gate")
    if measure is not None and reference:
        raise UsageError(f"--measure {measure} cannot be combined with --reference: only step times are published")
    if reference and gate != "step_time":
        raise UsageError(f"--gate {gate} cannot be combined with --reference: only step times are published")
    if reference and baseline:
        raise UsageError("--reference cannot be combined with --baseline")
    if reference or baseline:
        if len(runs) > 1:
            raise UsageError(f"{'--reference' if reference else '--baseline'} takes one run, got {len(runs)}")
    elif len(runs) != 2:
        raise UsageError(f"compare takes two runs or logs, or one with --baseline TAG or --reference; got {len(runs)}")


def _measured(
    texts: tuple[str, ...], workspace: Workspace, policy: str | None, single: bool, stated: Mapping[str, Scalar]
) -> list[list[Measured]]:
    """The runs or logs of each side, with repeats. Two repeats of the same command are compared as single runs."""
    from llmbx.api.verbs import tag_named

    from ..compare.logs import find_side

    tags = [tag_named(text) for text in texts]
    if len(texts) == 2 and tags.count(None) == 1:
        (other,) = _measured((texts[tags.index(None)],), workspace, policy, single, stated)
        return [other if tag is None else _baseline(tag, other, workspace, policy) for tag in tags]
    named = [find_side(workspace.install, text, workspace.plugins) for text in texts]
    _require_two(texts, named)
    if stated and all(isinstance(side, Run) for side in named):
        raise UsageError(f"--{next(iter(stated)).replace('_', '-')} is for logs: a run states it")
    return _measure(named, workspace, policy, single, stated)


def _require_two(texts: Sequence[str], named: Sequence[Run | list[TrainingLog]]) -> None:
    """Raise `UsageError` if both sides are the same run or have a log in common."""
    sides = [
        {side.record.run_id} if isinstance(side, Run) else {os.path.realpath(log.path) for log in side}
        for side in named
    ]
    if len(sides) == 2 and sides[0] & sides[1]:
        name = named[0].record.run_id if isinstance(named[0], Run) else texts[0]
        raise UsageError(f"cannot compare {name} with itself")


def _measure(
    named: Sequence[Run | list[TrainingLog]], workspace: Workspace, policy: str | None, single: bool,
    stated: Mapping[str, Scalar],
) -> list[list[Measured]]:  # fmt: skip
    """Measure the sides. Without a window of the user's, logs are measured over that of the run beside them."""
    from ..compare.logs import default_window, measured_log
    from ..compare.sides import with_repeats

    groups = [side.record.group for side in named if isinstance(side, Run)]
    alone = single or (len(groups) == 2 and groups[0] == groups[1])
    runs = {
        k: with_repeats(workspace.install, side, workspace.plugins, policy, alone)
        for k, side in enumerate(named)
        if isinstance(side, Run)
    }
    own = next((side[-1].result.window.policy for side in runs.values()), None)
    chosen = policy or own or default_window(log for side in named if not isinstance(side, Run) for log in side)
    return [
        list(runs[k]) if isinstance(side, Run) else [measured_log(log, chosen, stated) for log in side]
        for k, side in enumerate(named)
    ]


def _baseline(tag: str, other: Sequence[Measured], workspace: Workspace, policy: str | None) -> list[Measured]:
    """The runs with a tag, measured over the window of the user or of the logs that they are compared with."""
    from ..compare.logs import MeasuredLog
    from ..compare.sides import baseline

    of_logs = other[-1].result.window.policy if isinstance(other[-1], MeasuredLog) else None
    return [*baseline(workspace.install, tag, other, workspace.plugins, policy or of_logs)]


def _sides(
    chosen: list[list[Measured]], workspace: Workspace, tag: str | None, policy: str | None, reference: bool
) -> list[list[Measured]]:  # fmt: skip
    """The runs of A and B. A are the runs of the baseline with a tag, and none with a published figure."""
    if reference:
        return [[], chosen[-1]]
    if tag is None:
        return chosen
    return [_baseline(tag, chosen[-1], workspace, policy), chosen[-1]]


def _compare_with_published(
    runs: list[Measured], workspace: Workspace, allowed: float, force: bool, to_detect: float | None
) -> Comparison:
    from ..compare.earlier import spread_of
    from ..compare.published import compare_with_published

    spread = spread_of(workspace.install, runs, workspace.plugins)
    return compare_with_published(
        runs, workspace.plugins, workspace.config, allowed, force=force, spread=spread, to_detect=to_detect
    )


def _compare(
    chosen: list[list[Measured]], workspace: Workspace, tag: str | None, allowed: float, force: bool, name: str,
    measure: str | None, to_detect: float | None,
) -> Comparison:  # fmt: skip
    from llmbx_verdict.statistics import intervals

    from ..compare import ByMeasure, Gate, compare_runs
    from ..compare.earlier import spread_of

    gate: Gate | ByMeasure | None = None
    if measure is not None:
        gate = ByMeasure(measure, chosen[0], chosen[1], intervals.LEVEL)
    elif name != "step_time":
        gate = Gate(name, chosen[0], chosen[1], workspace.plugins, intervals.LEVEL)
    spread = spread_of(workspace.install, [*chosen[0], *chosen[1]], workspace.plugins)
    return compare_runs(
        chosen[0], chosen[1], allowed, force=force, baseline=tag, gate=gate, spread=spread, to_detect=to_detect
    )


def _write_page(path: Path, found: Comparison, sides: list[list[Measured]]) -> None:
    """Write the page. Its path goes to stderr, since stdout has the comparison in the chosen format."""
    from llmbx.api import write_atomic

    from ..report.comparison_page import build
    from ..report.html import render

    write_atomic(path, render(build(found, *sides)))
    click.echo(f"report: {path}", err=True)


def _print(found: Comparison, format_: str) -> None:
    from msgspec.structs import asdict

    from ..compare.render import render

    if format_ == "json":
        print_json(found)
    elif format_ not in FORMATS:
        from ..compare.cases import print_measures

        print_measures(format_, found)
    elif format_ == "csv":
        print_rows([asdict(metric) for metric in found.metrics], COLUMNS, format_)
        click.echo(f"{found.verdict}: {found.reason}", err=True)
    else:
        click.echo(render(found), nl=False)
