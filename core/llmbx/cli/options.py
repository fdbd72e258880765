"""Options that select and configure a run, shared by every verb that takes a workload."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import click

from ..config.request import Request, check_tags, parse_pairs
from ..errors import UsageError
from ..model import Handling
from ..model.settings import Field, Settings, fields
from ..phrases import did_you_mean
from ..plugins.manager import load
from ..plugins.settings_check import negated
from .completion import WORKLOAD
from .explicit_options import SEPARATOR, sweep_instead
from .extensions import Extensible
from .numbers import Above, Minutes
from .output import OutputPath

TYPES = {bool: click.BOOL, int: click.INT, float: click.FLOAT, str: click.STRING}


class RunCommand(Extensible):
    """A verb that also has the options of every plugin's settings."""

    is_run = True

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, then those of plugins; `--help` is the last."""
        *own, last = super().get_params(ctx)
        plugins, taken = load(), {name for param in own for name in (*param.opts, *param.secondary_opts)}
        for option in options():
            if clash := taken & {*option.opts, *option.secondary_opts}:
                error = f"the option {min(clash)} is one of `llmbx {self.name}`"
                plugins.disable(_plugin(option), f"plugin '{_plugin(option)}': {error}")
        return [*own, *options(), last]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, then a section for each plugin."""
        ours = options()
        own = [param for param in super().get_params(ctx) if isinstance(param, click.Option)]
        shown = [record for param in own if (record := param.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(shown)
        for plugin in dict.fromkeys(_plugin(option) for option in ours):
            records = [setting.get_help_record(ctx) for setting in ours if _plugin(setting) == plugin]
            with formatter.section(f"Options of plugin {plugin}"):
                formatter.write_dl([record for record in records if record])


def options() -> list[click.Option]:
    """The options of all plugins' settings, in the order in which plugins are loaded."""
    return [
        _setting_option(kind, field) for kind in load().settings.values() for field in fields(kind) if field.spelling
    ]


def pop_settings(arguments: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Remove the plugins' options from a command's arguments and return those that are set, by plugin and field.

    Raises `UsageError` for a malformed pair.
    """
    settings: dict[str, dict[str, Any]] = {}
    kinds = {name: {field.name: field for field in fields(kind)} for name, kind in load().settings.items()}
    for parameter in [name for name in arguments if SEPARATOR in name]:
        plugin, _, name = parameter.partition(SEPARATOR)
        value = arguments.pop(parameter)
        if kinds[plugin][name].kind is dict:
            value = _pairs(kinds[plugin][name].spelling, value)
        if value not in (None, {}, ()):
            settings.setdefault(plugin, {})[name] = value
    return settings


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """Parse `KEY=VALUE` texts into a table; a text without `=` sets the key to true."""
    pairs = parse_pairs(option, tuple(text if "=" in text else f"{text}=" for text in texts))
    return {key: value if value or f"{key}=" in texts else True for key, value in pairs.items()}


def _setting_option(kind: type[Settings], field: Field) -> click.Option:
    name, help_ = f"{kind.plugin}{SEPARATOR}{field.name}", field.option.help
    metavar = field.option.metavar or None
    if field.kind is dict:
        return click.Option([field.spelling, name], multiple=True, metavar=metavar or "KEY=VALUE", help=help_)
    if field.kind is bool:
        return click.Option([f"{field.spelling}/{negated(field.spelling)}", name], default=None, help=help_)
    values = click.Choice(field.choices) if field.choices else TYPES[field.kind]
    return click.Option([field.spelling, name], type=values, metavar=metavar, help=help_)


def _plugin(option: click.Option) -> str:
    return (option.name or "").partition(SEPARATOR)[0]


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
    "names": click.argument("names", nargs=-1, metavar="[PLUGIN] WORKLOAD [SIZE]", type=WORKLOAD),
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
        "--walltime", "walltime_minutes", type=Minutes(), metavar="MINUTES", help="Time limit of the run, or H:MM:SS."
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
        arguments["plugin_settings"] = pop_settings(arguments)
        others = {key: arguments.pop(key) for key in list(arguments) if key not in {*RUN_OPTIONS, "plugin_settings"}}
        request = build_request(arguments) if arguments.get("names") or arguments.get("workload") else None
        if request and own_steps:
            request = request.replace(steps_option="--max-steps")
        return ctx.invoke(function, request=request, **others)

    wrapped.__doc__ = function.__doc__
    for option in reversed(RUN_OPTIONS.values()):
        wrapped = (_MAX_STEPS if own_steps and option is _STEPS else option)(wrapped)
    return wrapped  # type: ignore[return-value]


def build_request(arguments: dict[str, Any]) -> Request:
    """Build a `Request` from the options. Raises `UsageError` for contradictions and malformed pairs."""
    names, workload = arguments.pop("names", ()), arguments.pop("workload", None)
    arguments["workload"], arguments["plugin"] = which_workload(names, workload, arguments.get("plugin"))
    for key, option in (("settings", "--set"), ("env", "--env")):
        arguments[key] = parse_pairs(option, arguments.get(key, ()))
    if arguments.get("tags"):
        arguments["tags"] = check_tags(arguments["tags"])
    for key in ("size", "dtype", "gpu_type"):
        value = arguments[key] = arguments[key].lower() if arguments.get(key) else None
        if value and "," in value:
            option = f"--{key.replace('_', '-')} {value}"
            raise UsageError(f"{option}: expected one; for several: {sweep_instead()}")
    return Request(**arguments)


def which_workload(names: tuple[str, ...], workload: str | None, plugin: str | None) -> tuple[str, str | None]:
    """The workload and its plugin, from `[PLUGIN] WORKLOAD [SIZE]`, --workload and --plugin.

    The workload's name ends in its size, if that is one of the words. Raises `UsageError` unless exactly one workload
    is named.
    """
    words, plugins = [*names, *([workload] if workload else [])], load()
    plugin = None if plugin is None else plugins.framework_at(plugin)
    for word in words:
        _refuse_setting(word)
    sizes_of = plugins.sizes
    if len(words) > 1 and plugin in (None, words[0]) and words[0] not in sizes_of:
        _require_plugin(words, sizes_of, plugins.frameworks())
        plugin = words.pop(0)
    if len(words) > 2 or (len(words) == 2 and (workload or words[1] in sizes_of)):
        raise UsageError(f"expected one workload, got {', '.join(words)}")
    if len(words) == 2 and words[1].lower() not in (sizes := sizes_of.get(words[0], {})):
        raise UsageError(f"{words[0]} has no size '{words[1]}'{did_you_mean(words[1], sizes)}")
    return "-".join(words), plugin


def _refuse_setting(word: str) -> None:
    """Raise `UsageError` for `tp=4`, which other programs take as an argument."""
    key, equals, value = word.partition("=")
    if equals:
        options = {name for param in click.get_current_context().command.params for name in param.opts}
        option = f"--{key} {value}" if f"--{key}" in options else f"--set {word}"
        raise UsageError(f"'{word}' is not a workload: use {option}")


def _require_plugin(words: Sequence[str], workloads: Collection[str], frameworks: Collection[str]) -> None:
    """Raise `UsageError` if the first word is not a plugin, but all words are the parts of a workload's name."""
    if words[0] in frameworks:
        return
    whole = next((text for text in (sign.join(words) for sign in ("", "-", "_")) if text in workloads), None)
    if whole is not None:
        raise UsageError(f"'{' '.join(words)}' is {len(words)} arguments (did you mean '{whole}'?)")
