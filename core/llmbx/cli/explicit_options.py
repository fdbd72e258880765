"""Options set explicitly on the command line."""

from __future__ import annotations

from collections.abc import Iterable

import click


def explicit_options(context: click.Context, names: Iterable[str] | None = None) -> list[str]:
    """The long spellings of the options set on the command line; with `names`, only those of these parameters."""
    wanted = None if names is None else set(names)
    return [
        _spelling(parameter)
        for parameter in context.command.get_params(context)
        if (wanted is None or _belongs(parameter.name or "", wanted))
        and context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
    ]


def _belongs(name: str, wanted: set[str]) -> bool:
    """Whether `wanted` contains the parameter. `plugin_settings` stands for the parameters of all plugins."""
    return name in wanted or ("__" in name and "plugin_settings" in wanted)


def _spelling(parameter: click.Parameter) -> str:
    return next((option for option in parameter.opts if option.startswith("--")), parameter.opts[0])
