"""Hooks of a plugin whose modules are imported on the first call of each hook."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from .. import hookimpl, hookspecs
from ..errors import PluginError
from ..phrases import did_you_mean
from .discovery import HOOKS

Hook = Callable[..., Any]


def lazy_hooks(package: str, **places: str) -> dict[str, Hook]:
    """Implementations of hooks by name, for a plugin's module: `globals().update(lazy_hooks(__package__, …))`.

    `places`: by hook, where its function is, as `module:name` in `package`. The module is imported on the first call,
    so that the plugin is loaded quickly. The function may omit arguments of the hook that it does not need. For
    `register_settings` the name is that of the class. Raises `PluginError` for an unknown hook.

    Example::

        globals().update(
            lazy_hooks(__package__, register_workloads="workloads:workloads", build_command="launch:launch")
        )
    """
    for hook in places:
        if hook not in HOOKS:
            raise PluginError(f"lazy_hooks: unknown hook '{hook}'{did_you_mean(hook, HOOKS)}")
    return {hook: _implementation(hook, package, place) for hook, place in places.items()}


def _implementation(hook: str, package: str, place: str) -> Hook:
    specification: Hook = getattr(hookspecs, hook)

    @functools.wraps(specification)  # pluggy reads the arguments of what is wrapped
    def implementation(*arguments: Any, **named: Any) -> Any:
        module, _, name = place.partition(":")
        function = getattr(importlib.import_module(f"{package}.{module}"), name)
        if hook == "register_settings":
            return function
        values = {**dict(zip(_parameters(specification), arguments, strict=False)), **named}
        accepted = _parameters(function)
        return function(**{name: value for name, value in values.items() if name in accepted})

    marked: Hook = hookimpl(implementation)
    return marked


@functools.cache
def _parameters(function: Hook) -> tuple[str, ...]:
    """The names of its parameters, in their order."""
    return tuple(inspect.signature(function).parameters)
