"""Run a workload, or the last run again, with some of its steps profiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from ..config.request import Request
from ..errors import UsageError
from ..model import Result, RunSpec
from .flow import once, preview, worst
from .given import given
from .options import World, run_options, world
from .plugin_options import RunCommand

_ALWAYS = ("steps", "force")
"""Options about the run that make sense without a workload, too."""


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    return run_options(function, own_steps=True)


@click.command("profile", cls=RunCommand)
@click.option("--steps", "profile_steps", metavar="A-B", help="Steps to profile: from A to before B, from zero.")
@click.option("--ranks", "profile_ranks", metavar="RANKS",
              help="seed (the recipe's; default), all, first,mid,last (of the pipeline stages), 0-8 …")  # fmt: skip
@click.option("--gpu-metrics", is_flag=True, default=None, help="Sample the GPUs' counters, on one rank of each node.")
@click.option(
    "--tool",
    "profile_tool",
    help="Profiler to use (`llmbx plugins` lists them). Default: the first that records steps.",
)
@click.option("--keep-secrets", is_flag=True, default=None,
              help="Give profiled ranks their secrets (HF_TOKEN …), which their profiles then store.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print what would be started, and start nothing.")
@click.option("--detach", is_flag=True, help="Return once the job is started.")
@click.option("--offline", is_flag=True, help="Use only what is already here.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="How to print the result, or the preview.")  # fmt: skip
@_options
def command(request: Request | None, dry_run: bool, detach: bool, offline: bool, format_: str, **profile: Any) -> None:
    """Run a workload with some of its steps profiled. Without a workload, repeat the last run.

    The run takes 50 steps in all, or what its recipe takes for a profile, and --steps 45-50 are five of them: 45 to 49,
    counted from zero. How large the files become is said before, and what they show afterwards.
    A profiled run is never a performance figure.

    \b
    Examples:
      llmbx profile --steps 45-50
      llmbx profile llama3.1 --size 405b --gpu-type gb200 --gpus 256 --dtype fp8 --ranks first,last
      llmbx profile llama2 --tool xplane --max-steps 20 --steps 10-15
    """
    here = world()
    spec, source = _again(profile, here) if request is None else (_new(request, profile, here), None)
    force = bool(click.get_current_context().params.get("force"))
    if dry_run:
        preview(spec, here, force, None, format_)
        return
    result = once(spec, here, force=force, detach=detach, offline=offline, format_=format_, source=source)
    sys.exit(worst([result] if isinstance(result, Result) else [], spec, here, allowed=0.0))


def _new(request: Request, profile: dict[str, Any], here: World) -> RunSpec:
    return here.resolve(request.replace(profile=True, **profile))


def _again(profile: dict[str, Any], here: World) -> tuple[RunSpec, str]:
    """The last run's specification with a profile, and its id. Raises `UsageError` where there is none."""
    from ..history import Selection, find_run, select
    from ..resolve.numbering import first_number
    from ..resolve.profiled import again

    context = click.get_current_context()
    about_the_run = set(Request.__struct_fields__) - {*_ALWAYS, *profile}
    if others := given(context, about_the_run):
        needs = "needs" if len(others) == 1 else "need"
        raise UsageError(f"{', '.join(others)} {needs} a workload: without one the last run is repeated as it was")
    if not select(here.install, Selection(limit=1)):
        raise UsageError("there is no run yet that could be repeated: name a workload (`llmbx list`)")
    run = find_run(here.install, "last")
    spec = run.record.spec
    recipes = here.plugins.workload(spec.workload, spec.plugin).recipes
    recipe = next((recipe for recipe in recipes if recipe.name == spec.recipe), None)
    if recipe is None:
        raise UsageError(f"the last run's recipe {spec.recipe} is no longer in the catalog: name a workload")
    asked = Request(workload=spec.workload, profile=True, steps=context.params.get("steps"), **profile)
    return again(spec, recipe, asked, os.environ, here.plugins, first_number(spec, here.plugins)), run.record.run_id
