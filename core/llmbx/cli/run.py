"""Run a workload, follow it live, and measure it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from ..config.request import Request
from ..errors import UsageError
from ..model import Result, RunSpec
from .flow import Started, interrupted, once, preview, worst
from .given import given
from .options import World, run_options, world
from .output import Target, print_json
from .plugin_options import RunCommand

_ALWAYS = ("force", "accept_image_change")
"""Options about the run that `--from` takes: they admit it, and do not make it another one."""

TOLERANCE = 0.05
"""A figure may be this fraction slower than the published one before the exit code says so."""


@click.command("run", cls=RunCommand)
@click.option("--dry-run", is_flag=True, help="Print what would be started, and start nothing.")
@click.option(
    "--emit-script",
    type=Target(dir_okay=False),
    metavar="FILE",
    help="Write the script that would be started; it runs without llmbx.",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Run it so many times.")
@click.option("--from", "source", metavar="RUN", help="Repeat an earlier run as it was (its id, or a prefix of it).")
@click.option("--detach", is_flag=True, help="Return once the job is started.")
@click.option("--offline", is_flag=True, help="Use only what is already here.")
@click.option("-p", "--profile", is_flag=True, default=None, help="Profile the recipe's usual steps.")
@click.option("--tolerance", default="5%", show_default=True, help="How much slower than the reference is too slow.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print the result, or the preview.",
)
@run_options
def command(
    request: Request | None, dry_run: bool, emit_script: Path | None, repeat: int, source: str | None, detach: bool,
    offline: bool, profile: bool | None, tolerance: str, format_: str,
) -> None:  # fmt: skip
    """Run a workload and measure it.

    On a machine without a GPU and without a cluster profile this trains the workload's mini: the same layer types, few
    and narrow, with the real framework on the CPU. Its environment is built once. With a GPU type and a scale it is the
    recipe's own configuration. Progress goes to stderr, the result to stdout: with --format json an object, of --repeat
    an array of them; a run started with --detach is an object with run_id, folder and job_id.

    \b
    Examples:
      llmbx run --plugin nemo grok1
      llmbx run llama3.1 --size mini --gpus 2 --set tp=2 --steps 20
      llmbx run grok1 --gpu-type gb200 --gpus 128 --dtype fp8 --dry-run
      llmbx run -w pretrain_grok1 -s 314b --dtype fp8 --scale 128 -p
    """
    from .numbers import fraction

    allowed = fraction(tolerance, "--tolerance")
    here = world()
    spec = _spec(request, source, profile, here)
    force = bool(click.get_current_context().params.get("force"))
    if dry_run or emit_script:
        preview(spec, here, force, emit_script, format_)
        return
    group = f"repeat-{os.getpid()}-{int(time.time())}" if repeat > 1 else None
    start = partial(
        once, spec, here, force=force, detach=detach, offline=offline, format_=format_, source=source, group=group
    )
    outcomes = _repeated(start, repeat, as_array=group is not None and format_ == "json")
    done = [outcome for outcome in outcomes if isinstance(outcome, Result)]
    if len(done) > 1:
        _joined(done, to_stderr=format_ == "json")
    sys.exit(worst(done, spec, here, allowed))


def _repeated(start: Callable[[], Result | Started], repeat: int, as_array: bool) -> list[Result | Started]:
    """What became of `repeat` runs, one after the other, until one is interrupted."""
    outcomes: list[Result | Started] = []
    try:
        for _ in range(repeat):
            outcomes.append(start())
            if interrupted(outcomes[-1]):
                break  # Ctrl-C is meant for the command, not only for the run of the moment
    finally:
        # What has run is told, also where a later repeat could not start.
        if as_array and outcomes:
            print_json(outcomes)
    return outcomes


def _spec(request: Request | None, source: str | None, profile: bool | None, here: World) -> RunSpec:
    if source is not None:
        if request is not None:
            raise UsageError("--from repeats a run as it was: give no workload with it")
        return _again(source, here)
    if request is None:
        raise UsageError("which workload? `llmbx list` names them")
    return here.resolve(request.replace(profile=profile) if profile else request)


def _again(source: str, here: World) -> RunSpec:
    """The specification of an earlier run. Raises `UsageError` for options that would make it another one."""
    from ..history import find_run

    context = click.get_current_context()
    if others := given(context, set(Request.__struct_fields__) - {*_ALWAYS}):
        raise UsageError(f"--from repeats a run as it was: {', '.join(others)} cannot change it; leave --from out")
    spec = find_run(here.install, source).record.spec
    return spec.replace(accept_image_change=spec.accept_image_change or context.params["accept_image_change"])


def _joined(results: list[Result], to_stderr: bool) -> None:
    from ..measure import stats

    means = [r.step_time_s.mean for r in results if r.status == "completed" and r.step_time_s.mean is not None]
    summary = stats.summary(means)
    if summary["mean"] is None:
        return
    spread = f" ± {summary['std']:.4f}" if summary["std"] is not None else ""
    click.echo(f"{len(means)} of {len(results)} repeats: step time {summary['mean']:.4f} s{spread} over runs "
               f"(min {summary['min']:.4f}, max {summary['max']:.4f})", err=to_stderr)  # fmt: skip
