"""Run a workload, or repeat the last run, with some of its steps profiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from llmbx.api import RunSpec, UsageError
from llmbx.api.verbs import (
    Request,
    RunCall,
    RunCommand,
    Workspace,
    explicit_options,
    load_workspace,
    output_option,
    pop_settings,
    run_options,
)

_ALWAYS = ("steps", "force")
"""Options of the run that are also accepted without a workload, besides those of profilers that record steps."""


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    return run_options(function, own_steps=True)


@click.command("profile", cls=RunCommand)
@click.option("--steps", "profile_steps", metavar="A-B", help="Steps to profile: A to B-1, counted from 0.")
@click.option("--ranks", "profile_ranks", metavar="RANKS",
              help="seed (the recipe's), all, first,mid,last (pipeline stages), 0-8 …  [default: seed]")  # fmt: skip
@click.option(
    "--tool",
    "profile_tool",
    help="Profiler to use (see `llmbx plugins`). Default: the workload's first that this machine can use.",
)
@click.option("--keep-secrets", is_flag=True, default=None,
              help="Pass secrets (HF_TOKEN …) to profiled ranks; their profiles will contain them.")  # fmt: skip
@RunCall.preview_options
@click.option("--detach", is_flag=True, help="Return as soon as the run is started or submitted.")
@output_option
@click.option("--offline", is_flag=True, help="Use only local images and packages.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="Output format of the result or the preview.")  # fmt: skip
@_options
def command(request: Request | None, dry_run: bool, verbose: bool, detach: bool, output: Path | None,
            offline: bool, format_: str, **profile: Any) -> None:  # fmt: skip
    """Run a workload with some of its steps profiled. Without a workload, repeat the last run.

    The run has 50 training steps, or the number that its recipe uses for profiling. Profiled steps are counted from 0,
    and the end is exclusive: --steps 45-50 profiles the five steps 45 to 49. The expected size of the files is printed
    before the run, and a summary of the profile after it. The result of a profiled run is not a benchmark result.

    \b
    Examples:
      llmbx profile --steps 45-50
      llmbx profile llama3.1 --size 405b --gpu-type gb200 --gpus 256 --dtype fp8 --ranks first,last
      llmbx profile llama2 --tool xplane --max-steps 20 --steps 10-15
    """
    workspace = load_workspace(output)
    spec, source = _again(profile, workspace) if request is None else (_new(request, profile, workspace), None)
    force = bool(click.get_current_context().params.get("force"))
    shown = "--dry-run" if dry_run else None
    call = RunCall(spec, workspace, source, shown, 1, detach, offline, force, 0.0, format_, verbose)
    sys.exit(call.execute())


def _new(request: Request, profile: dict[str, Any], workspace: Workspace) -> RunSpec:
    return workspace.resolve(request.replace(profile=True, **profile))


def _again(profile: dict[str, Any], workspace: Workspace) -> tuple[RunSpec, str]:
    """The specification of the last run with profiling, and the run's id. Raises `UsageError` if there is none."""
    context = click.get_current_context()
    about_the_run = set(Request.__struct_fields__) - {*_ALWAYS, *profile}
    recorders = {name for name in workspace.plugins.profilers() if workspace.plugins.profiler(name).takes_steps}
    if others := explicit_options(context, about_the_run, except_plugins=recorders):
        needs = "needs" if len(others) == 1 else "need"
        raise UsageError(f"{', '.join(others)} {needs} a workload; without one, the last run is repeated unchanged")
    try:
        run = workspace.find_run("last")
    except UsageError:
        raise UsageError("there is no run to repeat: specify a workload (see `llmbx list`)") from None
    spec = run.record.spec
    recipes = workspace.plugins.workload(spec.workload, spec.plugin).recipes
    recipe = next((recipe for recipe in recipes if recipe.name == spec.recipe), None)
    if recipe is None:
        raise UsageError(f"the last run's recipe {spec.recipe} is no longer in the catalog: specify a workload")
    requested = Request(
        workload=spec.workload, plugin=spec.plugin, profile=True, steps=context.params.get("steps"),
        plugin_settings=pop_settings({**context.params}), **profile,
    )  # fmt: skip
    return workspace.profiled_again(spec, recipe, requested), run.record.run_id
