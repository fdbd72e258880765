"""Wrong usage of a command in one line: what is wrong, in which option, and what would be right."""

from __future__ import annotations

import re
import sys

import click

from ..phrases import alike, did_you_mean, either, near, synonym
from .explicit_options import sweep_instead
from .extensions import Extensible

_VALUE = re.compile(r"'?(?P<value>.*?)'? (?:is not|does not|must)", re.DOTALL)
"""The beginning of click's messages about a value."""

_NO_COMMAND = re.compile(r"No such command '(.*)'")

RANGE = re.compile(r"\d+-\d+")
SEVERAL = re.compile(r"\d+([,-]\d+)+")
VARIABLES = ("ENABLE_CHECKPOINT", "HF_TOKEN", "LLMBX_CONFIG", "LOAD_CHECKPOINT_PATH")
"""Variables for which there is no option."""
FEW = 8
"""A group with more commands than these does not list them in the message."""


def line(error: click.ClickException) -> str:
    """The message for the terminal, with the command that explains the options."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else _verb(error)
    text = _text(error).rstrip(".")
    return f"{path}: {text}; see `{path} --help`" if isinstance(error, click.UsageError) else f"{path}: {text}"


def _verb(error: click.ClickException) -> str:
    """The verb that was typed, if click does not say whose option lacks its value."""
    typed = sys.argv[1:2] if isinstance(error, click.BadOptionUsage) else []
    return " ".join(["llmbx", *typed])


def _text(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        option = _typed(error.option_name)
        return f"no option '{option}'{_instead(option, error.ctx) if error.ctx else ''}"
    if type(error) is click.BadOptionUsage and "requires an argument" in error.message:
        return f"{error.option_name} needs a value: {error.option_name} VALUE"
    if isinstance(error, click.MissingParameter):
        return f"{_name(error.param)} is missing"
    if isinstance(error, click.BadParameter) and error.param is not None:
        match = _VALUE.match(error.message)
        value = match["value"] if match else ""
        expected = _expected(error.param, value, error.ctx) if match else None
        return f"{_spelling(error)} {value!r}: {expected}" if expected else f"{_spelling(error)}: {error.message}"
    unknown = _NO_COMMAND.match(error.message)
    context = getattr(error, "ctx", None)
    if unknown and context:
        return f"no command named '{unknown[1]}'{_command_like(unknown[1], context)}"
    return error.format_message()


def _is_run(command: click.Command) -> bool:
    return isinstance(command, Extensible) and command.is_run


def _expected(param: click.Parameter, value: str, context: click.Context | None) -> str | None:
    """What would be right; None if click's own message says it."""
    kind = param.type
    if isinstance(kind, click.Choice):
        choices = [str(choice) for choice in kind.choices]
        return f"expected {either(choices)}{near(value, choices)}"
    if isinstance(kind, click.IntRange | click.FloatRange):
        hint = _about_steps(param, value)
        if param.name == "gpus" and SEVERAL.fullmatch(value) and context and _is_run(context.command):
            hint = f"; for several: {sweep_instead()}"
        return f"expected {'an integer' if isinstance(kind, click.IntRange) else 'a number'}{_bounds(kind)}{hint}"
    plain = {
        "integer": "expected an integer",
        "float": "expected a number",
        "minutes": "expected minutes or H:MM:SS, for example 90 or 1:30:00",
    }
    return plain.get(kind.name)


def _bounds(kind: click.IntRange | click.FloatRange) -> str:
    low = f" {'above' if kind.min_open else 'of at least'} {kind.min:g}" if kind.min is not None else ""
    high = f" {'and below' if kind.max_open else 'and at most'} {kind.max:g}" if kind.max is not None else ""
    return low + high


def _about_steps(param: click.Parameter, value: str) -> str:
    """A range of steps means those to profile or to measure."""
    if param.name != "steps" or not RANGE.fullmatch(value):
        return ""
    return f"; to profile these steps: llmbx profile --steps {value}; to measure them: --window {value}"


def _spelling(error: click.BadParameter) -> str:
    """The option as it was typed, if it has several names, else its name."""
    param = error.param
    if not isinstance(param, click.Option):
        return _name(param)
    typed = [name for name in param.opts if name.startswith("--")]
    return typed[0] if typed else param.opts[0]


def _name(param: click.Parameter | None) -> str:
    if param is None:
        return "an argument"
    if isinstance(param, click.Option):
        return param.opts[0]
    return str(getattr(param, "make_metavar", lambda context: param.name)(click.Context(click.Command("x"))))


def _typed(option: str) -> str:
    """The option as it was typed: click names only the first letter of `-tp`."""
    return next((text for text in sys.argv if len(option) == 2 and text.startswith(option)), option)


def _instead(typed: str, context: click.Context) -> str:
    """What the command has instead of an option."""
    command, params = context.command, context.command.get_params(context)
    names = [name for param in params for name in param.opts if name.startswith("--")]
    if isinstance(command, click.Group) and typed.lstrip("-") in command.list_commands(context):
        return f": use {context.command_path} {typed.lstrip('-')}"
    variables = VARIABLES if _is_run(command) else ()
    arguments = [word for param in params if isinstance(param, click.Argument) for word in _name(param).split()]
    phrase = synonym(typed, [*names, *variables, *(word.strip("[]") for word in arguments)])
    if phrase is None and "--set" in names:
        phrase = _of_plugins(typed, names, _is_run(command))
    if phrase is not None:
        return f": use {phrase}"
    return near(typed, names) if typed.startswith("--") else ""


def _of_plugins(typed: str, names: list[str], runs: bool) -> str | None:
    """The setting, the option of a plugin or the tool that an option names."""
    from ..config.settings import ALIASES, BATCH, LETTERS, SHAPE, SWITCHES
    from ..plugins.manager import load

    plugins, plain = load(), typed.lstrip("-")
    key = plain.replace("-", "_")
    keys = {*LETTERS, *BATCH}
    if runs:
        keys |= {*SWITCHES, *SHAPE}.union(*plugins.set_keys.values())
    if ALIASES.get(key, key) in keys:
        return f"--set {ALIASES.get(key, key)}=VALUE"
    if own := [f"--{name}-{plain}" for name in plugins.settings if f"--{name}-{plain}" in names]:
        return either(own)
    tools = {"--with": plugins.profilers(), "--launcher": plugins.launchers(), "--runtime": plugins.runtimes(),
             "--plugin": plugins.frameworks()}  # fmt: skip
    tool = key.removeprefix("enable_").replace("_", "")
    named = (f"{option} {tool}" for option, members in tools.items() if tool in members and option in names)
    return next(named, None) or synonym(typed, names, plugins.synonyms)


def _command_like(typed: str, context: click.Context) -> str:
    """What to type instead of a command: another one of the group, or of llmbx, or `llmbx run` with a workload."""
    group, root = context.command, context.find_root()
    assert isinstance(group, click.Group) and isinstance(root.command, click.Group)
    if group.invoke_without_command and typed in ("list", "ls"):
        return f": use {context.command_path}"
    for outer in (context, root):
        assert isinstance(outer.command, click.Group)
        if phrase := synonym(typed, [*outer.command.list_commands(outer), "--version"]):
            return f": use {outer.command_path} {phrase}"
    names = group.list_commands(context)
    if context is not root:
        return did_you_mean(typed, names) if len(names) <= FEW else near(typed, names)
    return near(typed, names) or _run_instead(typed, names)


def _run_instead(typed: str, verbs: list[str]) -> str:
    """The verb of a plugin's users, or the run of a workload that was typed without a verb."""
    from ..plugins.manager import load

    plugins = load()
    if phrase := synonym(typed, verbs, plugins.synonyms):
        return f": use llmbx {phrase}"
    if typed in plugins.frameworks():
        return f": use llmbx list --plugin {typed}"
    workloads = [name for workload in plugins.workloads for name in (workload.name, *workload.aliases)]
    name = next(iter([typed] if typed in workloads else alike(typed, workloads)), None)
    return f" (did you mean 'llmbx run {name}'?)" if name else ""
