"""Preview a run, follow one from start to result, and compute the exit code: shared by the verbs that start runs."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InfraError, UsageError
from ..model import Expected, Result, RunSpec
from .output import print_json, print_note

if TYPE_CHECKING:
    from ..errors import Unreachable
    from ..launchers.base import Launcher
    from ..record.folder import PairMark, Run
    from ..run.pipeline import Runner
    from .progress import Progress
    from .workspace import Workspace

POLL_S = 0.5
"""Seconds between two looks at a run that another process prepares or is about to retry."""

ALLOWED = 0.05
"""Default of the tolerated slowdown against a published figure."""

STDOUT = Path("-")
"""Stands for stdout as the file of a script."""


@dataclasses.dataclass(frozen=True)
class Started:
    """A run started with --detach. `job_id` is None if the launcher returned none."""

    id: str
    run_id: str
    folder: str
    job_id: str | None


def _name(run: Run, workspace: Workspace) -> str:
    """How the user can name the run in the next command: by its folder if that is not among those of the install."""
    return run.folder if workspace.install.workload_origin == "--output" else run.record.id


def preview(
    spec: RunSpec,
    workspace: Workspace,
    *,
    force: bool,
    format_: str,
    verbose: bool,
    script: Path | None = None,
) -> None:
    """Print what would be started, or write its script; start nothing.

    A run that may need more memory than the GPU has is shown, with a problem.
    """
    from ..files import write_atomic
    from ..run.pipeline import Runner
    from . import preview as whole
    from .summary import summary

    spec, left_out = workspace.without_suspects(spec, "run")
    spec, runner = Runner.enter(spec, workspace.plugins, workspace.install, preview=True)
    elsewhere = runner.launcher.available() is not None  # this machine's disk is not that of the run
    findings = runner.findings(spec.replace(install=None) if elsewhere else spec)
    prediction, memory = workspace.expected(spec, findings)
    spec = runner.admit(spec, findings, force)
    findings += memory
    image, folder, rendered = runner.plan(spec)
    if script == STDOUT:
        click.echo(rendered.script, nl=False)
    elif script is not None:
        write_atomic(script, rendered.script, mode=0o755)
        click.echo(f"wrote {script}", err=True)
    elif format_ == "json" or verbose:
        text = whole.as_json if format_ == "json" else whole.preview
        click.echo(text(spec, image, folder, rendered, findings, os.environ, prediction), nl=False)
    else:
        lines = [*_opening(spec, workspace, runner.launcher.summary, prediction), *left_out]
        click.echo(summary(lines, spec, image, folder, rendered, findings, os.environ), nl=False)


def once(
    spec: RunSpec, workspace: Workspace, *, force: bool = False, detach: bool = False, offline: bool = False,
    format_: str = "text", source: str | None = None, group: str | None = None, pair: PairMark | None = None,
    allowed: float = ALLOWED,
) -> Result | Started:  # fmt: skip
    """Start one run, follow it until it ends and print its result; with `detach`, only start it and print its id.

    `source` is the id of the run that this one repeats. `group` joins the repeats of one command, which prints their
    JSON as one array. `pair` is the position among alternating runs, `allowed` the tolerated slowdown against the
    published figure (a fraction). Raises `UsageError` for an invalid specification.
    """
    from ..errors import Unreachable
    from ..run.pipeline import Runner
    from .progress import Progress

    if detach and spec.retries and spec.origins.get("retries") == "--retries":
        raise UsageError("--retries cannot be combined with --detach: retrying needs a process that follows the run")
    workspace.install.ensure()
    spec, left_out = workspace.without_suspects(spec, "run")
    try:
        spec, runner = Runner.enter_here(spec, workspace.plugins, workspace.install, force)
    except InfraError:
        Runner.admit(spec, workspace.expected(spec)[1], force)
        raise
    spec, prediction, lines = _admitted(spec, workspace, runner, force)
    progress = Progress(spec)
    for line in [*lines, *left_out]:
        print_note(line)
    run = runner.start(
        spec, progress.note, offline=offline, detach=detach, command=tuple(sys.argv[1:]), group=group, repeats=source,
        pair=pair, expected=prediction,
    )  # fmt: skip
    if detach:
        job = run.record.job
        started = Started(run.record.id, run.record.run_id, run.folder, job.job_id if job else None)
        _print_started(started, _name(run, workspace), format_, alone=group is None)
        return started
    progress.note(f"started {run.record.id}")
    try:
        result = runner.attend(run, progress)
    except KeyboardInterrupt:
        progress.close()
        click.echo(_left(run, runner.launcher.attended, _name(run, workspace)), err=True)
        raise
    except Unreachable as error:
        progress.close()
        raise not_followed(run, _name(run, workspace), error) from error
    progress.close()
    if format_ == "text" or (format_ == "json" and group is None):
        _print(result, run, workspace, spec, format_, allowed)
    return result


def _admitted(
    spec: RunSpec, workspace: Workspace, runner: Runner, force: bool
) -> tuple[RunSpec, Expected, list[str]]:  # fmt: skip
    """The specification if its findings allow it to run, its prediction, and the lines to print before the start."""
    findings = runner.findings(spec, here=True)
    prediction, too_much = workspace.expected(spec, findings)
    findings += too_much
    spec = runner.admit(spec, findings, force)
    lines = _opening(spec, workspace, runner.launcher.summary, prediction)
    return spec, prediction, [*lines, *(f"note: {finding.problem}; {finding.fix}" for finding in findings)]


def _left(run: Run, attended: bool, name: str) -> str:
    """What continues after an interruption, and how to come back to a run that continues."""
    from ..record.folder import RESULT

    if not attended:
        return f"detached; follow: llmbx logs --follow {name}; cancel: llmbx cancel {name}"
    return f"{run.record.id} {'has ended' if run.files.file(RESULT).exists() else 'is being stopped'}"


def not_followed(run: Run, name: str, error: Unreachable) -> InfraError:
    """The error of a run whose scheduler did not answer for too long: its job continues, unless it never started."""
    from ..record.folder import RESULT, read_run

    job = read_run(run.path).record.job
    if job is None or run.files.file(RESULT).exists():
        return error
    return InfraError(f"{error}; job {job.job_id} continues: llmbx logs --follow {name}; cancel: llmbx cancel {name}")


def _print_started(started: Started, name: str, format_: str, alone: bool) -> None:
    if format_ == "text":
        click.echo(started.run_id)
    elif alone:
        print_json(started)
    click.echo(f"started job {started.job_id or '?'}; follow it: llmbx logs --follow {name}", err=True)


def _opening(spec: RunSpec, workspace: Workspace, how: str, prediction: Expected) -> list[str]:
    """What is started and what is expected of it: the first lines of a run, and of its preview."""
    from ..catalog.hardware import GpuType, unlisted
    from ..run.expectation import announced

    where = "CPU" if spec.gpu_type == "cpu" else f"{spec.gpus} x {spec.gpu_type}"
    if group := unlisted(spec.gpu_type, GpuType.extend(workspace.config.gpus)):
        where += f" (this machine has {group})"
    lines = [f"{spec.workload} {spec.size} {spec.dtype} on {where}, {spec.steps} steps, recipe {spec.recipe}, "
             f"runtime {spec.runtime}, launcher {spec.launcher}"]  # fmt: skip
    if chosen := _size_chosen(spec):
        lines.append(chosen)
    if spec.gpu_type == "cpu" and (problem := GpuType.why_cpu()):
        lines.append(f"note: {problem}")
    if spec.mini and spec.cluster is None and (scheduler := _unused_scheduler(spec, workspace)):
        lines.append(f"note: this machine reaches {scheduler}: `llmbx init` writes a profile of its cluster")
    if how != workspace.plugins.launcher(spec.launcher).summary:
        lines.append(how)
    if workspace.install.origin == "default":
        lines += _stored_in(str(workspace.install.root))
    if spec.mini:
        lines.append("this is a mini, not a benchmark: do not compare it with published results")
    lines += [f"note: {text}" for text in spec.corrected]
    row = spec.exact_row(workspace.plugins.workload(spec.workload, spec.plugin))
    if row is not None and row.step_time_s is not None:
        lines.append(f"published: {row.step_time_s:g} s per step, {row.source}")
    expected = announced(prediction, spec)
    return [*lines, expected] if expected else lines


def _stored_in(root: str) -> list[str]:
    """Where artifacts are stored: a long path has a line of its own."""
    from .output import WIDTH

    line = f"artifacts are stored in {root} (set LLMB_INSTALL to change it)"
    if len(line) <= WIDTH:
        return [line]
    return ["artifacts are stored in (set LLMB_INSTALL to change it):", f"  {root}"]


def _unused_scheduler(spec: RunSpec, workspace: Workspace) -> str | None:
    """The launcher of a cluster that works here, although the run stays on this machine."""
    launchers = workspace.plugins.launchers()
    if spec.gpu_type != "cpu" or launchers[spec.launcher].remote:
        return None
    return next((name for name, launcher in launchers.items() if launcher.remote and _works(launcher, workspace)), None)


def _works(launcher: Launcher, workspace: Workspace) -> bool:
    return launcher.available() is None and launcher.check(workspace.install.path) is None


def _size_chosen(spec: RunSpec) -> str | None:
    """What was chosen for the machine and why; None if the user chose the size."""
    origin = spec.origins.get("size", "")
    if not origin or origin.startswith("--") or origin.isupper():
        return None
    return f"size {spec.size}: {origin}; others: llmbx list --here"


def _print(result: Result, run: Run, workspace: Workspace, spec: RunSpec, format_: str, allowed: float) -> None:
    if format_ == "json":
        print_json(result)
        return
    click.echo(result_text(result, run, workspace, spec, allowed), nl=False)


def result_text(result: Result, run: Run, workspace: Workspace, spec: RunSpec, allowed: float) -> str:
    """The result of one run with its verdict against the published figure and the next step.

    `allowed` is the tolerated slowdown (a fraction).
    """
    from .next_step import next_step
    from .published import against_published
    from .terminal import render, short_path

    workload = workspace.plugins.workload(spec.workload, spec.plugin)
    row = spec.nearest_row(workload)
    unlike = spec.row_differences(row) if row is not None else []
    judged = against_published([result], spec, workload, workspace, allowed)
    advice = next_step(result, _name(run, workspace), slower=judged is not None and judged.verdict == "slower")
    folder = short_path(run.folder, os.environ.get("HOME", ""))
    return render(result, folder, row, unlike, judged.sentence if judged else None, advice)


def interrupted(outcome: Result | Started) -> bool:
    """Whether Ctrl-C, SIGTERM or SIGHUP ended the run."""
    from ..model.result import exit_code

    return isinstance(outcome, Result) and exit_code(outcome) == 130


def follow_run(run_name: str, workspace: Workspace) -> int:
    """Show the progress of a run until it ends, then its result; return the exit code of `llmbx run`."""
    from ..errors import Unreachable
    from ..model.result import exit_code
    from .progress import Progress

    run = workspace.find_run(run_name)
    progress = Progress(run.record.spec)
    try:
        run, result = _to_the_end(run, workspace, progress)
    except Unreachable as error:
        progress.close()
        raise not_followed(run, run_name if os.sep in run_name else run.record.id, error) from error
    progress.close()
    click.echo(result_text(result, run, workspace, run.record.spec, ALLOWED), nl=False)
    return exit_code(result)


def _to_the_end(run: Run, workspace: Workspace, progress: Progress) -> tuple[Run, Result]:
    """Follow the run and its later attempts; return it as it is at the end, with its result."""
    from ..record.folder import read_run
    from ..run.finalize import launcher_of
    from ..run.follow import follow
    from ..run.pipeline import Runner
    from ..run.retry import may_take_over, take_over

    while (result := _result(run, workspace)) is None:
        if run.record.job is not None and may_take_over(run, launcher_of(run, workspace.plugins)):
            runner = Runner.of(run, workspace.plugins, workspace.install)
            return run, runner.attend(take_over(run), progress)
        if run.record.job is not None:
            parser = functools.partial(workspace.plugins.framework(run.record.spec.plugin).parse_log, run.record.spec)
            follow(run, launcher_of(run, workspace.plugins), parser, progress)
            result = _result(run, workspace)
        if result is not None:
            break
        time.sleep(POLL_S)  # It is being prepared, or the process that started it is about to retry it.
        run = read_run(run.path)
    return run, result


def _result(run: Run, workspace: Workspace) -> Result | None:
    """The result of an ended run; None if it continues or its scheduler does not answer: following survives that."""
    from ..errors import Unreachable
    from ..run.finalize import finalize

    try:
        return finalize(run, workspace.plugins)
    except Unreachable:
        if run.record.job is None:
            raise
        return None
