"""The command line as it was typed: options set explicitly, and the same for a sweep."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable

import click

SEPARATOR = "__"
"""Separates plugin and field in the name of a parameter."""


def explicit_options(
    context: click.Context, names: Iterable[str] | None = None, except_plugins: Collection[str] = ()
) -> list[str]:
    """The long spellings of the options set on the command line; with `names`, only those of these parameters.

    The options of `except_plugins` are left out.
    """
    parameters = None if names is None else set(names)
    return [
        _spelling(parameter)
        for parameter in context.command.get_params(context)
        if (parameters is None or _belongs(parameter.name or "", parameters))
        and (parameter.name or "").partition(SEPARATOR)[0] not in except_plugins
        and context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
    ]


def _belongs(name: str, parameters: set[str]) -> bool:
    """Whether `parameters` contains the parameter. `plugin_settings` stands for the parameters of all plugins."""
    return name in parameters or (SEPARATOR in name and "plugin_settings" in parameters)


def _spelling(parameter: click.Parameter) -> str:
    return next((option for option in parameter.opts if option.startswith("--")), parameter.opts[0])


def sweep_instead() -> str:
    """The command line as one of `llmbx sweep`, whose options take lists."""
    return shlex.join(["llmbx", "sweep", *sys.argv[2:]])
