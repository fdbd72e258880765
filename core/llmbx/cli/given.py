"""Which options were typed, as told from those that have their defaults."""

from __future__ import annotations

from collections.abc import Iterable

import click


def given(context: click.Context, names: Iterable[str] | None = None) -> list[str]:
    """The options on the command line by their long spelling; of all, or of the parameters with these names."""
    wanted = None if names is None else set(names)
    return [
        _spelling(parameter)
        for parameter in context.command.get_params(context)
        if (wanted is None or _belongs(parameter.name or "", wanted))
        and context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
    ]


def _belongs(name: str, wanted: set[str]) -> bool:
    """Whether a parameter is one of these; those of plugins are all `plugin_settings`."""
    return name in wanted or ("__" in name and "plugin_settings" in wanted)


def _spelling(parameter: click.Parameter) -> str:
    return next((option for option in parameter.opts if option.startswith("--")), parameter.opts[0])
