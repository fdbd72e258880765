"""Wrong usage of a command in one line: what is wrong, in which option, and what would be right."""

from __future__ import annotations

import re

import click

from ..errors import did_you_mean
from ..phrases import either

_VALUE = re.compile(r"'?(?P<value>.*?)'? (?:is not|does not|must)", re.DOTALL)
"""The beginning of click's messages about a value."""

RANGE = re.compile(r"\d+-\d+")


def line(error: click.ClickException) -> str:
    """The message for the terminal, with the command that explains the options."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "llmbx"
    text = _text(error).rstrip(".")
    return f"{path}: {text}; see `{path} --help`" if isinstance(error, click.UsageError) else f"{path}: {text}"


def _text(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        return f"no option '{error.option_name}'{_options_like(error)}"
    if isinstance(error, click.MissingParameter):
        return f"{_name(error.param)} is missing"
    if isinstance(error, click.BadParameter) and error.param is not None:
        found = _VALUE.match(error.message)
        value = found["value"] if found else ""
        expected = _expected(error.param, value) if found else None
        return f"{_spelling(error)} {value!r}: {expected}" if expected else f"{_spelling(error)}: {error.message}"
    return error.format_message()


def _expected(param: click.Parameter, value: str) -> str | None:
    """What would be right; None if click's own message says it."""
    kind = param.type
    if isinstance(kind, click.Choice):
        choices = [str(choice) for choice in kind.choices]
        near = did_you_mean(value, choices)
        return f"expected {either(choices)}{near if near.startswith(' (did') else ''}"
    if isinstance(kind, click.IntRange | click.FloatRange):
        hint = _about_steps(param, value)
        return f"expected {'an integer' if isinstance(kind, click.IntRange) else 'a number'}{_bounds(kind)}{hint}"
    plain = {"integer": "expected an integer", "float": "expected a number"}
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


def _options_like(error: click.NoSuchOption) -> str:
    """The suggestion of the option that is nearest to the one typed."""
    command = error.ctx.command if error.ctx else None
    known = [name for param in command.params for name in param.opts if name.startswith("--")] if command else []
    near = did_you_mean(error.option_name, known)
    return near if near.startswith(" (did") else ""
