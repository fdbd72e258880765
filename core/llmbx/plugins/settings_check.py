"""Refuse settings of a plugin that take an option, a variable or a key of core or of another plugin."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Mapping

from ..config.profiles import Cluster
from ..config.request import VARIABLES
from ..errors import PluginError
from ..model.settings import Field, Settings, fields

RESERVED = frozenset({
    "--accept-image-change", "--cluster", "--detach", "--dry-run", "--dtype",
    "--emit-script", "--env", "--flops", "--force", "--format", "--from", "--gpu-type", "--gpus", "--gpus-per-node",
    "--help", "--image", "--keep-secrets", "--launcher", "--max-steps", "--mount",
    "--offline", "--output", "--plugin", "--profile", "--ranks", "--recipe", "--repeat", "--retries",
    "--runtime", "--scale", "--set", "--size", "--stall-timeout", "--steps", "--tag", "--tolerance", "--tool",
    "--verbose", "--walltime", "--window", "--with", "--workload", "-h", "-p", "-s", "-w",
})  # fmt: skip
"""The options of core's verbs that also have those of plugins."""

CORE_VARIABLES = frozenset({name for _, names in VARIABLES.values() for name in names}) | {
    "LLMB_INSTALL", "LLMB_WORKLOAD", "LLMBX_CONFIG", "LLMBX_DEBUG", "LLMBX_HOOK_LIMIT_S", "LLMBX_PLUGINS",
    "LLMBX_PYTHON", "LLMBX_STOP_GRACE_S", "LLMBX_TRACE_HOOKS",
}  # fmt: skip
"""Environment variables that core reads."""

KEYS = frozenset(Cluster.__struct_fields__) - {"plugin_keys"}
"""Core's keys of a cluster profile."""

_OPTION = re.compile(r"--[a-z0-9][a-z0-9-]*|-[A-Za-z]")


def check_settings(name: str, kind: type[Settings], others: Mapping[str, type[Settings]]) -> None:
    """Raise `PluginError` if the settings class of the plugin `name` takes what belongs to core or to the `others`."""
    for problem in _problems(name, kind, others):
        raise PluginError(f"plugin '{name}': {problem}")


def _problems(name: str, kind: type[Settings], others: Mapping[str, type[Settings]]) -> Iterator[str]:
    if name in KEYS:
        yield f"its table in a cluster profile has the name of llmbx's own key '{name}': rename the plugin"
    if not all(isinstance(text, str) and text for pair in kind.synonyms.items() for text in pair):
        yield "synonyms: expected what llmbx has and the words for it, as texts"
    options = {
        spelling: owner
        for owner, settings in others.items()
        for field in fields(settings)
        for spelling in spellings(field)
    }
    variables = {
        variable: owner
        for owner, settings in others.items()
        for field in fields(settings)
        for variable in field.option.variables
    }
    for field in fields(kind):
        if field.name in KEYS:
            yield f"the setting '{field.name}' has the name of llmbx's own key of a cluster profile: rename it"
        for option in spellings(field):
            if not _OPTION.fullmatch(option):
                yield f"the setting '{field.name}' has the option {option!r}, expected --NAME of a-z, 0-9 and -"
            if option in RESERVED:
                yield f"the option {option} (setting '{field.name}') belongs to llmbx itself: choose another name"
            if option in options:
                yield f"the option {option} already belongs to plugin '{options[option]}'"
        for variable in field.option.variables:
            if variable in CORE_VARIABLES:
                yield f"the variable {variable} (setting '{field.name}') belongs to llmbx itself: choose another name"
            if variable in variables:
                yield f"the variable {variable} already belongs to plugin '{variables[variable]}'"
    counts = collections.Counter(
        spelling for field in fields(kind) for spelling in (*spellings(field), *field.option.variables)
    )
    twice = next((spelling for spelling, count in counts.items() if count > 1), None)
    if twice is not None:
        yield f"two of its settings have {twice}"


def spellings(field: Field) -> tuple[str, ...]:
    """The options of a setting on the command line; a switch also has one that turns it off."""
    if not field.spelling:
        return ()
    return (field.spelling, negated(field.spelling)) if field.kind is bool else (field.spelling,)


def negated(option: str) -> str:
    """The option that turns a switch off."""
    return f"--no-{option.lstrip('-')}"
