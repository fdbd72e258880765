"""Options that select and configure a run, shared by every verb that takes a workload."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ..config.install import Install, absolute, find_install
from ..config.plugin_settings import join
from ..config.profiles import Config, Merged, Profile, choose_profile, load_config
from ..config.request import STAGE_PATH_NOTE, Request, parse_pairs
from ..errors import UsageError, did_you_mean
from ..model import Expected, Finding, Handling, Result, RunSpec
from ..model.settings import Field, fields
from ..plugins.local_sources import is_path
from ..plugins.manager import Plugins, load
from ..runtimes.select import AUTO
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
        from ..history.tags import check_tags

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


@dataclasses.dataclass(frozen=True)
class Workspace:
    """Plugins, configuration and install: the environment in which a verb runs."""

    plugins: Plugins
    config: Config
    cluster_files: dict[str, str]
    install: Install

    def resolve(self, request: Request) -> RunSpec:
        """The specification of the requested run. Raises `UsageError` if it cannot be resolved."""
        from ..resolve import resolve

        spec = resolve(request, self.plugins, self.config, self.cluster_files, os.environ, self.install.root)
        _require_known("launcher", spec, self.plugins.launchers())
        _require_known("runtime", spec, [*self.plugins.runtimes(), AUTO])
        return spec

    def expected(self, spec: RunSpec, findings: Sequence[Finding] = ()) -> tuple[Expected, list[Finding]]:
        """What the run is expected to measure, and a finding if it needs more memory than the GPU has.

        Nothing is predicted for a run with errors among its `findings`. No warning is given about work that others have
        published: it has run, with nearly this memory.
        """
        from ..catalog import hardware
        from ..run.expectation import expected, memory_findings

        if not all(finding.warning for finding in (*spec.findings, *findings)):
            return Expected(unknown_because="the configuration is not valid"), []
        found = expected(spec, self.plugins, self.install)
        gpu = hardware.extend(self.config.gpus).get(spec.gpu_type)
        needs = memory_findings(spec, found, gpu.memory_gb if gpu is not None else None)
        published = spec.exact_row(self.plugins.workload(spec.workload, spec.plugin)) is not None
        return found, [one for one in needs if not (one.warning and published)]

    def profile(self, request: Request | None = None) -> Profile | None:
        """The cluster profile of the request, else the default one; None if there is none."""
        return choose_profile(self.config, self.cluster_files, request.cluster if request else None)

    def exit_code(self, results: Sequence[Result], spec: RunSpec, allowed: float, say: bool = True) -> int:
        """The exit code for the results of one run or of its repeats; `say`: print how they compare with the published
        figure.

        `allowed` is the tolerated slowdown (a fraction). The mean of an unstable window is never called too slow.
        """
        from ..run.pipeline import exit_code
        from .published import against_published, decided

        codes = {exit_code(result) for result in results} or {0}
        for code in (130, 4, 1):
            if code in codes:
                return code
        workload = self.plugins.workload(spec.workload, spec.plugin)
        if any(not decided(result, spec, workload) for result in results):
            return 5
        judged = against_published(results, spec, workload, self.install, self.plugins.judge, allowed)
        if judged is None:
            return 0
        if say:
            click.echo(judged.sentence, err=True)
        return 3 if judged.verdict == "slower" else 0

    def launcher_settings(self, request: Request, launcher: str) -> dict[str, Any]:
        """The settings of the launcher's plugin for this request, from profile, environment and options."""
        return self.plugin_settings(self.plugins.settings_of(launcher), request)

    def plugin_settings(self, plugin: str, request: Request | None = None) -> dict[str, Any]:
        """The settings of a plugin without a run, from profile, environment and the options of `request`."""
        kind = self.plugins.settings.get(plugin)
        if kind is None:
            return {}
        options, set_keys = request.plugin_settings.get(plugin, {}) if request else {}, self.plugins.set_keys
        return join(kind, self.profile(request), os.environ, options, set_keys=set_keys.get(plugin, ())).values


def _require_known(what: str, spec: RunSpec, known: Collection[str]) -> None:
    """Raise `UsageError`, with the origin of the name, if no plugin provides the launcher or runtime."""
    name = getattr(spec, what)
    if name not in known:
        raise UsageError(f"{spec.origins[what]}: no {what} named '{name}'{did_you_mean(name, known)}")


def install_and_plugins() -> tuple[Install, Callable[[], Plugins]]:
    """The install and a function that loads the plugins: a verb that only reads files starts faster without them."""
    config, _ = configuration()
    install = find_install(os.environ, config.install, config.install_file)
    install.share()
    return install, load


def configuration() -> tuple[Merged, dict[str, str]]:
    """The configuration and the file of each cluster; says which files of other folders are used and ignored."""
    config, cluster_files = load_config()
    for note in config.notes:
        click.echo(f"llmbx: note: {note}", err=True)
    if config.project_file:
        click.echo(f"llmbx: using {config.project_file}", err=True)
    return config, cluster_files


def load_workspace(output: Path | None = None) -> Workspace:
    """Load plugins and configuration; `output` is the folder for the runs, if it is not in the install.

    Prints a note if the obsolete variable `STAGE_PATH` is set.
    """
    if os.environ.get("STAGE_PATH"):
        click.echo(f"llmbx: note: {STAGE_PATH_NOTE}", err=True)
    config, cluster_files = configuration()
    install = find_install(os.environ, config.install, config.install_file)
    if output is not None:
        install = install.replace(workload_root=absolute(str(output), "--output"), workload_origin="--output")
    install.share()
    return Workspace(load(), config, cluster_files, install)


def path_or_run(path: Path) -> Path:
    """A path as it is if it exists, has several parts or is `-`, else the folder of the run that it names.

    Raises `UsageError` if it is neither.
    """
    if path.exists() or len(path.parts) > 1 or str(path) == "-":
        return path
    from ..history import find_run

    install, _ = install_and_plugins()
    try:
        return find_run(install, str(path)).path
    except UsageError as error:
        raise UsageError(f"{path}: no such file or folder, and {error}") from None
