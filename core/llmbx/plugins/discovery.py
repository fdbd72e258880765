"""Load plugins from entry points one by one, so that a broken one is reported and does not affect the others."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pluggy

from .. import hookspecs
from ..errors import PluginError
from ..model import Value
from ..phrases import did_you_mean
from . import local_sources
from .calls import PLUGIN_EXCEPTIONS, Call, describe_error, is_wrapper
from .entry_points import load, points
from .hangs import limit_s
from .packages import EntryPoint

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
    wrappers: tuple[str, ...] = ()
    """Hooks whose calls of other plugins it wraps."""
    error: str | None = None
    import_s: float | None = None

    @staticmethod
    def enable(path: Path) -> str:
        """Use a plugin that is not installed in every command; return a line that says so. Raises `UsageError`."""
        return local_sources.enable(path)

    @staticmethod
    def disable(path: Path) -> str:
        """Stop using a plugin that was enabled; return a line that says so. Raises `UsageError` if it was not."""
        return local_sources.disable(path)

    @property
    def warning(self) -> str | None:
        """The problem of a plugin that could be loaded, or None."""
        if self.error or self.hooks or self.wrappers:
            return None
        return "it implements no hook: mark its functions with @llmbx.hookimpl"


def discover(manager: pluggy.PluginManager) -> list[PluginInfo]:
    """Load and register every plugin, llmbx's own first, and return a description of each.

    Of several plugins with the same name, only the first is registered.
    """
    infos: list[PluginInfo] = []
    for point in own_first(points(GROUP)):
        infos.append(_register(manager, point, infos))
    return infos


def own_first(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Sort entry points: those of llmbx's own distribution first."""
    return sorted(points, key=lambda point: owner(point) != OWN)


def owner(point: EntryPoint) -> str:
    """Return the name of the distribution that has the entry point, or the path of a plugin that is not installed."""
    return point.dist.name if point.dist else getattr(point, "source", "?")


def _register(manager: pluggy.PluginManager, point: EntryPoint, before: list[PluginInfo]) -> PluginInfo:
    name, version = (point.dist.name, point.dist.version) if point.dist else (owner(point), "not installed")
    info = PluginInfo(name=point.name, distribution=name, version=version, module=point.value)
    taken = next((earlier for earlier in before if earlier.name == point.name), None)
    if taken is not None:
        return info.replace(error=f"the name '{point.name}' is taken by {taken.distribution} {taken.version}")
    began, call = time.monotonic(), Call(f"plugin '{point.name}'", "its import", "its import failed", limit_s())
    try:
        with call:
            plugin = load(point)
        info = info.replace(import_s=time.monotonic() - began)
        _check_version(plugin)
        _check_hooks(manager, plugin)
        manager.register(plugin, name=point.name)
    except PLUGIN_EXCEPTIONS as error:
        return info.replace(error=str(error) if isinstance(error, PluginError) else describe_error(error))
    own = [(c.name, is_wrapper(i)) for c in manager.get_hookcallers(plugin) or [] for i in c.get_hookimpls()
           if i.plugin is plugin]  # fmt: skip
    plain, wrappers = (tuple(sorted({name for name, wraps in own if wraps is kind})) for kind in (False, True))
    return info.replace(hooks=plain, wrappers=wrappers)


def _check_version(plugin: Any) -> None:
    """Raise `PluginError` if the plugin was made for an incompatible version of `llmbx.api`."""
    version = getattr(plugin, "LLMBX_API", hookspecs.VERSION)
    if not (isinstance(version, tuple) and len(version) == 2 and all(isinstance(part, int) for part in version)):
        raise PluginError(f"LLMBX_API is {version!r}, expected (major, minor) as in LLMBX_API = {hookspecs.VERSION}")
    made_for, here = ".".join(map(str, version)), ".".join(map(str, hookspecs.VERSION))
    if version[0] < hookspecs.VERSION[0]:
        raise PluginError(f"it requires llmbx.api {made_for}, but this is {here}: update the plugin")
    if version > hookspecs.VERSION:
        raise PluginError(f"it requires llmbx.api {made_for}, but this is {here}: update llmbx")


def _check_hooks(manager: pluggy.PluginManager, plugin: Any) -> None:
    """Raise `PluginError` for an implementation that pluggy would not register, or never call."""
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is None:
            continue
        hook = options.get("specname") or name
        caller: pluggy.HookCaller | None = getattr(manager.hook, hook, None)
        if caller is None or caller.spec is None:
            if not options.get("optionalhook"):
                raise PluginError(f"it implements an unknown hook '{hook}'{did_you_mean(hook, HOOKS)}")
            continue
        function, wraps = getattr(plugin, name), options.get("wrapper") or options.get("hookwrapper")
        if wraps and not inspect.isgeneratorfunction(function):
            raise PluginError(f"{hook}: a hook wrapper must be a generator with exactly one yield")
        unknown = next((argument for argument in _required(function) if argument not in caller.spec.argnames), None)
        if unknown is not None:
            near = did_you_mean(unknown, caller.spec.argnames)
            takes = f"its arguments are {', '.join(caller.spec.argnames)}" if caller.spec.argnames else "it has none"
            hint = near if near.startswith(" (did") else ""
            raise PluginError(f"{hook}: the hook has no argument '{unknown}'{hint}; {takes}")


def _required(function: Any) -> list[str]:
    """The arguments that a call must give; those with a default are left out, as pluggy does."""
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
    ]
    return [
        parameter.name
        for parameter in needed
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
