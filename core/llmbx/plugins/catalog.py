"""The workloads of all plugins, and the one that a name means."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..catalog.workloads import with_declared
from ..errors import LlmbxError, UsageError
from ..model import Size, Workload
from ..phrases import did_you_mean, near

if TYPE_CHECKING:
    from .manager import Plugins


def registered(plugins: Plugins) -> list[Workload]:
    """The workloads of every plugin, with its name and the fields of its settings class.

    A plugin with two workloads of one name, or with settings that clash, is disabled.
    """
    all_: list[Workload] = []
    for plugin, workloads in plugins.gather("register_workloads"):
        twice = duplicate(name for workload in workloads for name in {workload.name, *workload.aliases})
        if twice is not None:
            plugins.disable(plugin, f"plugin '{plugin}' has two workloads named '{twice}'")
            continue
        try:
            all_ += _with_settings(plugins, plugin, workloads)
        except LlmbxError as error:
            plugins.disable(plugin, str(error))
    return all_


def _with_settings(plugins: Plugins, plugin: str, workloads: Sequence[Workload]) -> list[Workload]:
    """The workloads of a framework, with the fields of its settings class. Raises `LlmbxError` for a clash."""
    kind = plugins.settings_class(plugin)
    named = [workload.replace(plugin=plugin) for workload in workloads]
    if kind is None:
        return named
    return [with_declared(workload, kind, f"plugin '{plugin}': workload '{workload.name}'") for workload in named]


def find(plugins: Plugins, name: str, plugin: str | None = None) -> Workload:
    """The workload of that name, else of that alias. Raises `UsageError` if no plugin or several have it."""
    if plugin is not None:
        plugins.framework(plugin)
    name, _ = plugins.workload_and_size(name)
    candidates = [w for w in plugins.workloads if plugin in (None, w.plugin)]
    matches = [w for w in candidates if name == w.name] or [w for w in candidates if name in w.aliases]
    owners = sorted({w.plugin for w in matches})
    if len(owners) > 1:
        claimed = f"workload '{name}' is claimed by the plugins {' and '.join(owners)}"
        raise UsageError(f"{claimed}; choose one with --plugin {owners[0]}")
    if not matches:
        raise UsageError(_unknown(plugins, name, plugin, candidates))
    return matches[0]


def _unknown(plugins: Plugins, name: str, plugin: str | None, candidates: Sequence[Workload]) -> str:
    """The line about a name that no workload has."""
    if plugin is None and name in plugins.frameworks():
        own = sorted(w.name for w in candidates if w.plugin == name)
        return f"'{name}' is a plugin: add one of its workloads ({', '.join(own)})"
    where = f" in plugin '{plugin}'" if plugin else ""
    owner = next((w.plugin for w in plugins.workloads if name in (w.name, *w.aliases)), None)
    names, aliases = [w.name for w in candidates], [alias for w in candidates for alias in w.aliases]
    hint = f": it is one of plugin '{owner}'" if owner else near(name, names) or near(name, aliases)
    return f"no workload named '{name}'{where}{hint or did_you_mean(name, names)}"


def name_and_size(sizes: Mapping[str, Mapping[str, Size]], name: str, size: str | None) -> tuple[str, str | None]:
    """The name and the size of `WORKLOAD-SIZE`; else the name itself and `size`. `sizes` are those by workload.

    The case does not matter, nor the owner of a name of the hub (`meta-llama/Llama-3.1-8B`), nor `:` for `-`.
    Raises `UsageError` if the sizes differ.
    """
    plain = name.rpartition("/")[2].lower()
    if plain in sizes:
        return plain, size
    cuts = [index for index, letter in enumerate(plain) if letter in "-_:" and name not in sizes]
    parts = [(plain[:cut], plain[cut + 1 :]) for cut in cuts]
    workload, own = next(((start, end) for start, end in parts if end in sizes.get(start, ())), (name, size))
    if size not in (None, own):
        raise UsageError(f"{workload}: expected one size, got {own} and {size}")
    return workload, own


def duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that occurs more than once, or None."""
    counts = collections.Counter(names)
    return next((name for name, count in counts.items() if count > 1), None)
