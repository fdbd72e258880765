"""Command-line options generated from the settings classes of plugins."""

from __future__ import annotations

from typing import Any

import click

from ..config.request import parse_pairs
from ..model.settings import Field, Settings, fields
from ..plugins.manager import load
from ..plugins.settings_check import negated
from .explicit_options import SEPARATOR
from .extensions import Extensible

TYPES = {bool: click.BOOL, int: click.INT, float: click.FLOAT, str: click.STRING}


class RunCommand(Extensible):
    """A verb that also has the options of every plugin's settings."""

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
            rows = [record for one in ours if _plugin(one) == plugin and (record := one.get_help_record(ctx))]
            with formatter.section(f"Options of plugin {plugin}"):
                formatter.write_dl(rows)


def options() -> list[click.Option]:
    """The options of all plugins' settings, in the order in which plugins are loaded."""
    return [_option(kind, field) for kind in load().settings.values() for field in fields(kind) if field.spelling]


def pop_settings(arguments: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Remove the plugins' options from a command's arguments and return those that are set, by plugin and field.

    Raises `UsageError` for a malformed pair.
    """
    found: dict[str, dict[str, Any]] = {}
    kinds = {name: {field.name: field for field in fields(kind)} for name, kind in load().settings.items()}
    for parameter in [name for name in arguments if SEPARATOR in name]:
        plugin, _, name = parameter.partition(SEPARATOR)
        value = arguments.pop(parameter)
        if kinds[plugin][name].kind is dict:
            value = _pairs(kinds[plugin][name].spelling, value)
        if value not in (None, {}, ()):
            found.setdefault(plugin, {})[name] = value
    return found


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """Parse `KEY=VALUE` texts into a table; a text without `=` sets the key to true."""
    pairs = parse_pairs(option, tuple(text if "=" in text else f"{text}=" for text in texts))
    return {key: value if value or f"{key}=" in texts else True for key, value in pairs.items()}


def _option(kind: type[Settings], field: Field) -> click.Option:
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
