"""Options that select and configure a run, shared by every verb that takes a workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..config.request import Request, check_tags, parse_pairs
from ..errors import UsageError
from ..model import Handling
from ..model.settings import Field, fields
from ..plugins.local_sources import is_path
from ..plugins.manager import load
from . import plugin_options
from .completion import WORKLOAD
from .numbers import Above
from .output import OutputPath

F = TypeVar("F", bound=Callable[..., Any])

_STEPS = click.option(
    "--steps", "--max-steps", "steps", type=click.IntRange(min=1), metavar="N", help="Number of training steps."
)
_MAX_STEPS = click.option(
    "--max-steps", "steps", type=click.IntRange(min=1), metavar="N", help="Number of training steps."
)


def _option(field: Field) -> Callable[[Any], Any]:
    """The option of a setting of `Handling`, which has no negative number."""
    if field.kind is bool:
        return click.option(field.spelling, field.name, is_flag=True, default=None, help=field.option.help)
    kind = click.IntRange(min=0) if field.kind is int else Above(0)
    return click.option(field.spelling, field.name, type=kind, metavar=field.option.metavar, help=field.option.help)


RUN_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "names": click.argument("names", nargs=-1, metavar="[PLUGIN] WORKLOAD", type=WORKLOAD),
    "workload": click.option("-w", "--workload", help="Workload, instead of the argument WORKLOAD."),
    "plugin": click.option(
        "--plugin",
        metavar="NAME|PATH",
        help="Plugin of the workload; PATH is one that is not installed (file or folder).",
    ),
    "size": click.option("-s", "--size", help="Model size: 8b, 70b, 405b, 314b, mini …"),
    "dtype": click.option(
        "--dtype", help="Data type: bf16, fp8, mxfp8, nvfp4 or fp32. Default: the workload's; fp32 for a mini on a CPU."
    ),
    "gpu_type": click.option("--gpu-type", help="GPU type: h100, gb200, cpu … (see `llmbx list`)."),
    "gpus": click.option(
        "--gpus", "--scale", "gpus", type=click.IntRange(min=1), metavar="N", help="Number of GPUs (on CPU: of ranks)."
    ),
    "gpus_per_node": click.option(
        "--gpus-per-node", type=click.IntRange(min=1), metavar="N", help="GPUs per node, to override the default."
    ),
    "recipe": click.option("--recipe", help="Recipe to use.  [default: newest]"),
    "steps": _STEPS,
    "window": click.option(
        "--window", metavar="A-B|last|auto", help="Steps to measure; A-B is inclusive, in the log's step numbers."
    ),
    "settings": click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a setting: tp=2, gbs=64 …"
    ),
    "env": click.option(
        "--env", "env", multiple=True, metavar="NAME=VALUE", help="Export an environment variable to every rank."
    ),
    "image": click.option("--image", help="Container image to use (reference or file)."),
    "runtime": click.option(
        "--runtime",
        help="Runtime to use (see `llmbx doctor`). Default: from the cluster profile, else the first that works here.",
    ),
    "launcher": click.option(
        "--launcher",
        help="Launcher to use (see `llmbx doctor`). Default: from the cluster profile, else selected for the run.",
    ),
    "cluster": click.option("--cluster", help="Cluster profile in llmbx.toml to use."),
    "mounts": click.option(
        "--mount", "mounts", multiple=True, metavar="SRC[:DST][:ro]", help="Mount a path into the container."
    ),
    "walltime_minutes": click.option(
        "--walltime", "walltime_minutes", type=click.IntRange(min=1), metavar="MINUTES", help="Time limit of the run."
    ),
    **{field.name: _option(field) for field in fields(Handling)},
    "tags": click.option("--tag", "tags", multiple=True, help="Tag to add to the run. Can be repeated."),
    "wrappers": click.option(
        "--with", "wrappers", multiple=True, metavar="PROFILER", help="Profiler to wrap the run in. Can be repeated."
    ),
    "force": click.option(
        "--force", is_flag=True, help="Run even if the configuration breaks rules; the record lists them."
    ),
}
"""The options by parameter name, in the order of the help text."""


output_option = click.option(
    "--output",
    type=OutputPath(),
    metavar="FOLDER",
    help="Store the runs under FOLDER/experiments, not in the install, which may then be read-only.",
)


def preview_options(function: F) -> F:
    """Add the options that show a run instead of starting it."""
    everything = "With --dry-run: print every variable, mount and origin, and the script."
    verbose = click.option("--verbose", is_flag=True, help=everything)
    help_ = "Print what would be started without starting it."
    return click.option("--dry-run", is_flag=True, help=help_)(verbose(function))


def run_options(function: F, own_steps: bool = False) -> F:
    """Add the options of `RUN_OPTIONS` to a command; it receives them as one `Request` in the parameter `request`.

    `request` is None if no workload is named. With `own_steps` the verb defines `--steps` itself, and the number of
    training steps is `--max-steps`.
    """

    @click.pass_context
    def wrapped(ctx: click.Context, /, **arguments: Any) -> Any:
        arguments["plugin_settings"] = plugin_options.pop_settings(arguments)
        rest = {key: arguments.pop(key) for key in list(arguments) if key not in {*RUN_OPTIONS, "plugin_settings"}}
        request = build_request(arguments) if arguments.get("names") or arguments.get("workload") else None
        if request and own_steps:
            request = request.replace(steps_option="--max-steps")
        return ctx.invoke(function, request=request, **rest)

    wrapped.__doc__ = function.__doc__
    for option in reversed(RUN_OPTIONS.values()):
        wrapped = (_MAX_STEPS if own_steps and option is _STEPS else option)(wrapped)
    return wrapped  # type: ignore[return-value]


def build_request(arguments: dict[str, Any]) -> Request:
    """Build a `Request` from the options. Raises `UsageError` for contradictions and malformed pairs."""
    arguments["workload"], arguments["plugin"] = which_workload(
        arguments.pop("names", ()), arguments.pop("workload", None), arguments.get("plugin")
    )
    for key, option in (("settings", "--set"), ("env", "--env")):
        arguments[key] = parse_pairs(option, arguments.get(key, ()))
    if arguments.get("tags"):
        arguments["tags"] = check_tags(arguments["tags"])
    for key in ("size", "dtype", "gpu_type"):
        arguments[key] = arguments[key].lower() if arguments.get(key) else None
    return Request(**arguments)


def which_workload(names: tuple[str, ...], workload: str | None, plugin: str | None) -> tuple[str, str | None]:
    """The workload and its plugin, from `[PLUGIN] WORKLOAD`, --workload and --plugin.

    Raises `UsageError` unless exactly one workload is named.
    """
    found = [*names, *([workload] if workload else [])]
    if plugin is not None and is_path(plugin):
        plugin = load().framework_at(plugin)
    if len(names) == 2 and plugin in (None, names[0]):
        _require_plugin(names)
        plugin = found.pop(0)
    if len(found) != 1:
        raise UsageError(f"expected one workload, got {', '.join(found)}")
    return found[0], plugin


def _require_plugin(names: tuple[str, ...]) -> None:
    """Raise `UsageError` if the first of two names is not a plugin, but both are workloads or the parts of one."""
    plugins = load()
    known = {name for one in plugins.workloads for name in (one.name, *one.aliases)}
    if names[0] in plugins.frameworks():
        return
    whole = next((text for text in ("".join(names), "-".join(names), "_".join(names)) if text in known), None)
    if whole is not None:
        raise UsageError(f"'{' '.join(names)}' is two arguments (did you mean '{whole}'?)")
    if names[0] in known:
        raise UsageError(f"'{names[0]}' is a workload, not a plugin: a command takes one workload")
