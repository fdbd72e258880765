"""Run a workload and measure it."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

from ..config.request import Request
from ..errors import InfraError, UsageError
from ..model import Result, RunSpec
from .completion import RUN
from .explicit_options import explicit_options
from .extensions import act
from .flow import Started, interrupted, once, preview
from .options import RunCommand, output_option, preview_options, run_options
from .output import OutputPath, case_formats, print_json
from .workspace import Workspace, load_workspace

if TYPE_CHECKING:
    from ..record.folder import Run

FORMATS = ("text", "json")
"""The formats of the result; those of plugins have test cases."""

_ALWAYS = ("force", "accept_image_change")
"""Options of the run that can be combined with --from: they do not change the run."""


@click.command("run", cls=RunCommand)
@preview_options
@click.option(
    "--emit-script",
    type=OutputPath(dir_okay=False),
    metavar="FILE",
    help="Write the script that would be started to FILE (-: stdout). It runs without llmbx.",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Number of runs.")
@click.option(
    "--from", "source", metavar="RUN", type=RUN, help="Repeat an earlier run unchanged (by id or a unique prefix)."
)
@click.option("--detach", is_flag=True, help="Return as soon as the run is started or submitted.")
@output_option
@click.option("--offline", is_flag=True, help="Use only local images and packages.")
@click.option("-p", "--profile", is_flag=True, default=None, help="Profile the recipe's default steps.")
@click.option(
    "--tolerance",
    default="5%",
    show_default=True,
    metavar="PERCENT",
    help="Allowed slowdown against the reference, or the run of --against; beyond it the exit code is 3.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice([*FORMATS, *case_formats()]),
    default="text",
    show_default=True,
    help="Output format of the result or the preview.",
)
@run_options
def command(
    request: Request | None, dry_run: bool, verbose: bool, emit_script: Path | None, repeat: int, source: str | None,
    detach: bool, output: Path | None, offline: bool, profile: bool | None, tolerance: str, format_: str,
) -> None:  # fmt: skip
    """Run a workload and measure it.

    With a GPU type and a number of GPUs, the recipe's configuration is run. On a machine without a GPU and without a
    cluster profile, the default is the workload's mini: a small model with the same layer types, trained with the real
    framework on the CPU. Its environment is built on first use.

    Progress is printed to stderr and the result to stdout. With --format json the result is an object, with --repeat an
    array of objects, with --detach an object with id, run_id, folder and job_id. Other formats have
    a test case for each run, for CI servers.

    \b
    Examples:
      llmbx run --plugin nemo grok1
      llmbx run llama3.1 --size mini --gpus 2 --set tp=2 --steps 20
      llmbx run grok1 --gpu-type gb200 --gpus 128 --dtype fp8 --dry-run
      llmbx run -w pretrain_grok1 -s 314b --dtype fp8 --scale 128 -p
    """
    from .numbers import fraction

    allowed = fraction(tolerance, "--tolerance")
    workspace = load_workspace(output)
    spec = _spec(request, source, profile, workspace)
    force = bool(click.get_current_context().params.get("force"))
    if format_ not in FORMATS:
        _require_result(format_, dry_run or emit_script is not None, detach)
    shown = "--emit-script" if emit_script else "--dry-run" if dry_run else None
    call = RunCall(
        spec, workspace, source, shown, repeat, detach, offline, force, allowed, format_, verbose, emit_script
    )
    code = act(call)
    sys.exit(call.execute() if code is None else code)


@dataclasses.dataclass(frozen=True)
class RunCall:
    """What `llmbx run` was asked for: the specification, and the options that do not belong to it.

    `source` is the id of the run that this one repeats. `preview` is the option that only shows the run (`--dry-run`
    or `--emit-script`): all of it if `verbose`, or its script in the file `script`. `allowed` is the tolerated
    slowdown (a fraction).
    """

    spec: RunSpec
    workspace: Workspace
    source: str | None
    preview: str | None
    repeat: int
    detach: bool
    offline: bool
    force: bool
    allowed: float
    format: str
    verbose: bool = False
    script: Path | None = None

    preview_options: ClassVar = staticmethod(preview_options)
    """Adds the options `--dry-run` and `--verbose` to a command."""

    def earlier(self, name: str) -> Run:
        """The run that `name` names, to be run again. Raises `UsageError` for another user's without `--force`."""

        return _accepting(self.workspace.find_run(name))

    def measure(self, spec: RunSpec, group: str) -> Result:
        """Run `spec` to its end as one of the runs of `group`. Nothing is printed to stdout."""
        return self._silent(spec, group=group)

    def start(
        self, spec: RunSpec, source: str | None, group: str, pair: tuple[int, Literal["a", "b"]]
    ) -> tuple[Result, int]:
        """Run `spec` to its end; return the result and its exit code. Nothing is printed to stdout.

        `group` is the id of the command, `pair` the number of the pair (from 1) and the side among alternating runs.
        """
        from ..model.result import exit_code
        from ..record.folder import PairMark

        number, side = pair
        mark = PairMark(group=group, number=number, side=side)
        result = self._silent(spec, source=source, group=f"{group} {side}", pair=mark)
        return result, exit_code(result)

    def _silent(self, spec: RunSpec, **marks: Any) -> Result:
        result = once(spec, self.workspace, force=self.force, offline=self.offline, format_="json", **marks)
        assert isinstance(result, Result)  # only --detach returns before the end
        return result

    def execute(self) -> int:
        """Show the run, or start it as often as it was asked for and print what was measured; return the exit code."""
        if self.preview:
            preview(
                self.spec, self.workspace, force=self.force, format_=self.format, verbose=self.verbose,
                script=self.script,
            )  # fmt: skip
            return 0
        outcomes = self._repeated(f"repeat-{os.getpid()}-{int(time.time())}" if self.repeat > 1 else None)
        done = [outcome for outcome in outcomes if isinstance(outcome, Result)]
        if len(done) > 1:
            _print_summary(done, to_stderr=self.format != "text")
        say = self.format != "text" or len(done) > 1
        return self.workspace.exit_code(done, self.spec, self.allowed, say=say)

    def _repeated(self, group: str | None) -> list[Result | Started]:
        """Start the runs one after the other and return their outcomes; stop if one is interrupted."""
        outcomes: list[Result | Started] = []
        problem: str | None = None
        try:
            for _ in range(self.repeat):
                outcomes.append(
                    once(
                        self.spec, self.workspace, force=self.force, detach=self.detach, offline=self.offline,
                        format_=self.format, source=self.source, group=group, allowed=self.allowed,
                    )
                )  # fmt: skip
                if interrupted(outcomes[-1]):
                    break  # Ctrl-C ends the whole command, not only the current run
        except InfraError as error:
            problem = str(error)
            raise
        finally:
            self._finish(outcomes, problem)  # finished runs are printed even if a later one could not start
        return outcomes

    def _finish(self, outcomes: list[Result | Started], problem: str | None) -> None:
        """Print the outcomes of all repeats; `problem` is the reason if one of them could not be started."""
        if self.format not in FORMATS and (outcomes or problem):
            from .cases import of_runs, print_cases

            results = [outcome for outcome in outcomes if isinstance(outcome, Result)]
            cases = of_runs(results, self.spec, self.workspace, self.allowed, problem)
            print_cases(self.format, "llmbx run", cases)
        elif self.format == "json" and self.repeat > 1 and outcomes:
            print_json(outcomes)


def _require_result(format_: str, preview: bool, detach: bool) -> None:
    """Refuse what has no result to judge, or another one."""
    if preview or detach:
        options = "--detach" if detach else "--dry-run or --emit-script"
        raise UsageError(f"--format {format_} cannot be combined with {options}: there is no result to report")


def _spec(request: Request | None, source: str | None, profile: bool | None, workspace: Workspace) -> RunSpec:
    if source is not None:
        if request is not None:
            raise UsageError("--from cannot be combined with a workload")
        return _again(source, workspace)
    if request is None:
        raise UsageError("no workload specified: `llmbx list` shows all workloads")
    return workspace.resolve(request.replace(profile=profile) if profile else request)


def _again(source: str, workspace: Workspace) -> RunSpec:
    """The specification of an earlier run. Raises `UsageError` for options that would change it."""

    context = click.get_current_context()
    if others := explicit_options(context, set(Request.__struct_fields__) - {*_ALWAYS}):
        raise UsageError(f"--from cannot be combined with {', '.join(others)}")
    return _accepting(workspace.find_run(source)).record.spec


def _accepting(run: Run) -> Run:
    """The run with --accept-image-change in its specification, if the option is set.

    Raises `UsageError` for the run of another user without --force: its record may have been written for this purpose.
    """
    if run.files.owner_id not in (os.geteuid(), 0) and not click.get_current_context().params["force"]:
        what = "its setup lines, environment and mounts would be used with your rights"
        raise UsageError(f"{run.record.id} belongs to {run.files.owner}: {what}; read its run.json, then add --force")
    spec, accepted = run.record.spec, click.get_current_context().params["accept_image_change"]
    changed: Run = run.replace(
        record=run.record.replace(spec=spec.replace(accept_image_change=spec.accept_image_change or bool(accepted)))
    )
    return changed


def _print_summary(results: list[Result], to_stderr: bool) -> None:
    from ..measure import stats

    means = [r.step_time_s.mean for r in results if r.status == "completed" and r.step_time_s.mean is not None]
    summary = stats.summary(means)
    if summary["mean"] is None:
        return
    spread = f" ± {summary['std']:.4f}" if summary["std"] is not None else ""
    click.echo(f"{len(means)} of {len(results)} repeats: step time {summary['mean']:.4f} s{spread} over runs "
               f"(min {summary['min']:.4f}, max {summary['max']:.4f})", err=to_stderr)  # fmt: skip
