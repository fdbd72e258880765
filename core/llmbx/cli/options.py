"""The options that say which run is meant, shared by every verb that takes a workload."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import click

from ..config.install import Install, find_install
from ..config.plugin_settings import join
from ..config.profiles import Config, choose_profile, load_config
from ..config.request import STAGE_PATH_NOTE, Request, parse_pairs
from ..errors import UsageError, did_you_mean
from ..model import RunSpec
from ..plugins.manager import Plugins, load
from ..runtimes.select import AUTO
from . import plugin_options
from .numbers import Above

F = TypeVar("F", bound=Callable[..., Any])

_STEPS = click.option("--steps", "--max-steps", "steps", type=click.IntRange(min=1), help="Training steps in all.")
_MAX_STEPS = click.option("--max-steps", "steps", type=click.IntRange(min=1), help="Training steps in all.")

RUN_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "names": click.argument("names", nargs=-1, metavar="[PLUGIN] WORKLOAD"),
    "workload": click.option("-w", "--workload", help="The workload, as an option."),
    "plugin": click.option("--plugin", help="The plugin, where several have the workload."),
    "size": click.option("-s", "--size", help="Model size: 8b, 70b, 405b, 314b, mini …"),
    "dtype": click.option("--dtype", help="bf16, fp8 or fp32. Default: the workload's; fp32 for a mini on a CPU."),
    "gpu_type": click.option("--gpu-type", help="a100, h100, h200, b200, b300, gb200, gb300, cpu."),
    "gpus": click.option(
        "--gpus", "--scale", "gpus", type=click.IntRange(min=1), help="Number of GPUs (ranks on CPU)."
    ),
    "gpus_per_node": click.option(
        "--gpus-per-node", type=click.IntRange(min=1), help="GPUs in one node, where the default is wrong."
    ),
    "recipe": click.option("--recipe", help="The recipe, where the newest is not meant."),
    "steps": _STEPS,
    "window": click.option("--window", help="Steps to measure: A-B (inclusive, the log's numbers), last, or auto."),
    "settings": click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one setting: tp=2, gbs=64 …"
    ),
    "env": click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Export a variable to every rank."),
    "image": click.option("--image", help="Another container image (reference or file)."),
    "accept_image_change": click.option(
        "--accept-image-change", is_flag=True, help="Use an image although it is not the one first seen."
    ),
    "runtime": click.option("--runtime", help="Runtime to use (`llmbx doctor` lists them). Default: what works here."),
    "launcher": click.option(
        "--launcher",
        help="Launcher to use (`llmbx doctor` lists them). Default: what the run needs.",
    ),
    "cluster": click.option("--cluster", help="The cluster profile of llmbx.toml to use."),
    "mounts": click.option(
        "--mount", "mounts", multiple=True, metavar="SRC[:DST][:ro]", help="Mount into the container."
    ),
    "walltime_minutes": click.option(
        "--walltime", "walltime_minutes", type=click.IntRange(min=1), metavar="MINUTES", help="Time limit."
    ),
    "stall_timeout_s": click.option(
        "--stall-timeout",
        "stall_timeout_s",
        type=Above(0),
        metavar="SECONDS",
        help="Dump stacks and stop when the log is silent for so long.",
    ),
    "retries": click.option(
        "--retries",
        type=click.IntRange(min=0),
        metavar="N",
        help="Try again so often after a failure of the infrastructure.",
    ),
    "preflight": click.option(
        "--preflight/--no-preflight", default=None, help="Look at every node first; default: above 64 GPUs."
    ),
    "tags": click.option("--tag", "tags", multiple=True, help="A word to find the run by later."),
    "wrappers": click.option(
        "--with", "wrappers", multiple=True, metavar="PROFILER", help="Profiler to wrap the run in. Can be repeated."
    ),
    "force": click.option("--force", is_flag=True, help="Run although rules are broken; the record says so."),
}
"""Each option by the name of its parameter, in the order of the help text."""


def run_options(function: F, own_steps: bool = False) -> F:
    """Add every option that says which run is meant; they arrive as one `Request` named `request`.

    It is None where no workload is named. `own_steps` leaves the name `--steps` to the verb; `--max-steps` stays.
    """

    @click.pass_context
    def wrapped(ctx: click.Context, /, **arguments: Any) -> Any:
        arguments["plugin_settings"] = plugin_options.taken(arguments)
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
    """The options as a `Request`. Raises `UsageError` for contradictions and malformed pairs."""
    arguments["workload"], arguments["plugin"] = which_workload(
        arguments.pop("names", ()), arguments.pop("workload", None), arguments.get("plugin")
    )
    for key, option in (("settings", "--set"), ("env", "--env")):
        arguments[key] = parse_pairs(option, arguments.get(key, ()))
    if arguments.get("tags"):
        from ..history.tags import check_tags

        arguments["tags"] = check_tags(arguments["tags"])
    for key in ("size", "dtype", "gpu_type"):
        arguments[key] = arguments[key].lower() if arguments.get(key) else None
    return Request(**arguments)


def which_workload(names: tuple[str, ...], workload: str | None, plugin: str | None) -> tuple[str, str | None]:
    """The workload and its plugin, from `[PLUGIN] WORKLOAD` and the options of these names. Raises `UsageError`."""
    found = [*names, *([workload] if workload else [])]
    if len(names) == 2 and plugin in (None, names[0]):
        plugin = found.pop(0)
    if len(found) != 1:
        raise UsageError(f"expected one workload, got {', '.join(found)}")
    return found[0], plugin


@dataclasses.dataclass(frozen=True)
class World:
    """What a verb works with: the plugins, the configuration and the install."""

    plugins: Plugins
    config: Config
    cluster_files: dict[str, str]
    install: Install

    def resolve(self, request: Request) -> RunSpec:
        """The specification that the request means here."""
        from ..resolve import resolve

        spec = resolve(request, self.plugins, self.config, self.cluster_files, os.environ, self.install.root)
        _require_known("launcher", spec, self.plugins.launchers())
        _require_known("runtime", spec, [*self.plugins.runtimes(), AUTO])
        return spec

    def launcher_settings(self, request: Request, launcher: str) -> dict[str, Any]:
        """The settings of a launcher's plugin as this request has them here."""
        plugin = self.plugins.settings_of(launcher)
        kind, profile = self.plugins.settings.get(plugin), None
        if kind is None:
            return {}
        profile = choose_profile(self.config, self.cluster_files, request.cluster)
        return join(kind, profile, os.environ, request.plugin_settings.get(plugin, {})).values


def _require_known(what: str, spec: RunSpec, known: Collection[str]) -> None:
    """Raise `UsageError` for the name of a launcher or runtime that no plugin brings; says where it is from."""
    name = getattr(spec, what)
    if name not in known:
        raise UsageError(f"{spec.origins[what]}: no {what} named '{name}'{did_you_mean(name, known)}")


def place() -> tuple[Install, Callable[[], Plugins]]:
    """The install, and the plugins for when they are needed: a verb that reads files alone starts faster."""
    config, _ = load_config()
    return find_install(os.environ, config.install, config.install_file), load


def world() -> World:
    """Load plugins and configuration, and say once that `STAGE_PATH` has been replaced where it is still set."""
    if os.environ.get("STAGE_PATH"):
        click.echo(f"llmbx: note: {STAGE_PATH_NOTE}", err=True)
    config, cluster_files = load_config()
    return World(load(), config, cluster_files, find_install(os.environ, config.install, config.install_file))
