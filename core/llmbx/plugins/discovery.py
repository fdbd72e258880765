"""Load plugins from entry points one by one, so that a broken one is reported and does not affect the others."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import time
from collections.abc import Iterable
from typing import Any

import pluggy

from .. import hookspecs
from ..errors import PluginError, did_you_mean
from ..model import Value
from .entry_points import entry_points
from .isolation import PLUGIN_EXCEPTIONS, describe_error, stdout_to_stderr
from .time_limit import TookTooLong, limit_s, limited

GROUP = "llmbx"
OWN = "llmbx"
"""The distribution whose plugins take precedence over others of the same name."""
HOOKS = tuple(name for name, member in vars(hookspecs).items() if getattr(member, "llmbx_spec", None) is not None)


class PluginInfo(Value, frozen=True):
    """One plugin as `llmbx plugins` lists it; `error` is the reason why it could not be loaded."""

    name: str
    distribution: str
    version: str
    module: str
    hooks: tuple[str, ...] = ()
    error: str | None = None
    import_s: float | None = None

    @property
    def warning(self) -> str | None:
        """The problem of a plugin that could be loaded, or None."""
        if self.error or self.hooks:
            return None
        return "it implements no hook: mark its functions with @llmbx.hookimpl"


def discover(manager: pluggy.PluginManager) -> list[PluginInfo]:
    """Load and register every plugin, llmbx's own first, and return a description of each.

    Of several plugins with the same name, only the first is registered.
    """
    found: list[PluginInfo] = []
    for point in own_first(entry_points(GROUP)):
        found.append(_register(manager, point, found))
    return found


def own_first(points: Iterable[importlib.metadata.EntryPoint]) -> list[importlib.metadata.EntryPoint]:
    """Sort entry points: those of llmbx's own distribution first."""
    return sorted(points, key=lambda point: owner(point) != OWN)


def owner(point: importlib.metadata.EntryPoint) -> str:
    """Return the name of the distribution that has the entry point, or the path of a plugin that is not installed."""
    return _facts(point.dist)[0] if point.dist else getattr(point, "source", "?")


@functools.cache
def _facts(dist: importlib.metadata.Distribution) -> tuple[str, str]:
    """Return name and version of a distribution. Reads only the header, as parsing all metadata takes milliseconds."""
    head = (dist.read_text("METADATA") or "").partition("\n\n")[0]
    found = dict(re.findall(r"^(Name|Version): (.+)$", head, re.MULTILINE))
    if len(found) < 2:
        return dist.metadata["Name"], dist.version
    return found["Name"].strip(), found["Version"].strip()


def _register(
    manager: pluggy.PluginManager, point: importlib.metadata.EntryPoint, before: list[PluginInfo]
) -> PluginInfo:
    name, version = _facts(point.dist) if point.dist else (owner(point), "not installed")
    info = PluginInfo(name=point.name, distribution=name, version=version, module=point.value)
    taken = next((other for other in before if other.name == point.name), None)
    if taken is not None:
        return info.replace(error=f"the name '{point.name}' is taken by {taken.distribution} {taken.version}")
    limit, began = limit_s(), time.monotonic()
    try:
        with stdout_to_stderr(), limited(limit):
            plugin = point.load()
        info = info.replace(import_s=time.monotonic() - began)
        _check_version(plugin)
        manager.register(plugin, name=point.name)
        _check_hooks(manager, plugin)
    except TookTooLong:
        return info.replace(error=f"its import did not end within {limit:g} s")
    except PLUGIN_EXCEPTIONS as error:
        if manager.has_plugin(point.name):
            manager.unregister(name=point.name)
        return info.replace(error=str(error) if isinstance(error, PluginError) else describe_error(error))
    return info.replace(hooks=tuple(sorted(c.name for c in manager.get_hookcallers(plugin) or [])))


def _check_version(plugin: Any) -> None:
    """Raise `PluginError` if the plugin was made for an incompatible version of `llmbx.api`."""
    wanted = getattr(plugin, "LLMBX_API", hookspecs.VERSION)
    if not (isinstance(wanted, tuple) and len(wanted) == 2 and all(isinstance(part, int) for part in wanted)):
        raise PluginError(f"LLMBX_API is {wanted!r}, expected (major, minor) as in LLMBX_API = {hookspecs.VERSION}")
    made_for, here = ".".join(map(str, wanted)), ".".join(map(str, hookspecs.VERSION))
    if wanted[0] < hookspecs.VERSION[0]:
        raise PluginError(f"it requires llmbx.api {made_for}, but this is {here}: update the plugin")
    if wanted > hookspecs.VERSION:
        raise PluginError(f"it requires llmbx.api {made_for}, but this is {here}: update llmbx")


def _check_hooks(manager: pluggy.PluginManager, plugin: Any) -> None:
    for caller in manager.get_hookcallers(plugin) or []:
        own = [implementation for implementation in caller.get_hookimpls() if implementation.plugin is plugin]
        if caller.spec is None and not all(implementation.optionalhook for implementation in own):
            raise PluginError(f"it implements an unknown hook '{caller.name}'{did_you_mean(caller.name, HOOKS)}")
