"""Proxies around plugin runtimes and launchers.

Exceptions and invalid return values of their methods are reported with the plugin's name.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any

from ..launchers.base import Launcher, LauncherExtras
from ..runtimes.base import Runtime, RuntimeExtras
from . import validation
from .calls import Call

_EXTRAS: dict[type, type] = {Runtime: RuntimeExtras, Launcher: LauncherExtras}
"""The optional members of each interface."""


class ToolProxy:
    """Proxy of a runtime or launcher of `plugin`, with the same members. What `inside` returns is wrapped too."""

    def __init__(self, tool: Any, plugin: str, kind: type) -> None:
        self._tool, self._plugin, self._kind = tool, plugin, kind

    @property
    def plugin(self) -> str:
        """The name of the plugin that registered it."""
        return self._plugin

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self._tool, name)
        return functools.partial(self._call, name, member) if callable(member) else member

    def _call(self, method: str, member: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        call = Call(f"plugin '{self._plugin}'", f"{method} of {self._kind.__name__.lower()} '{self._tool.name}'")
        with call:
            answer = member(*arguments, **named)
        if method == "inside":
            return self if answer is self._tool else ToolProxy(answer, self._plugin, self._kind)
        kind = _return_types(self._kind, method)
        if kind is None or (answer is None and type(None) in kind):
            return answer
        return validation.validate_value(call.title, kind[0], answer)


@functools.cache
def _return_types(protocol: type, method: str) -> tuple[type, ...] | None:
    """Return the types that a method of the interface may return; None if it has no annotation or returns nothing."""
    function = getattr(protocol, method, None) or getattr(_EXTRAS[protocol], method, None)
    if function is None:
        return None
    found = typing.get_type_hints(function)["return"]
    kinds = typing.get_args(found) if validation.without_none(found) is not found else (found,)
    kind = typing.get_origin(kinds[0]) or kinds[0]
    return None if kind is type(None) else (kind, *kinds[1:])


def runtime(tool: Runtime, plugin: str) -> Runtime:
    """Wrap a runtime."""
    return typing.cast(Runtime, ToolProxy(tool, plugin, Runtime))


def launcher(tool: Launcher, plugin: str) -> Launcher:
    """Wrap a launcher."""
    return typing.cast(Launcher, ToolProxy(tool, plugin, Launcher))
