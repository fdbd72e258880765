"""Checks by the chosen plugins before a run has a folder: defaults, unused settings, what no script can express."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.plugin_settings import with_defaults
from ..errors import UsageError
from ..launchers.script import check_variable
from ..model import Finding, Recipe, RunSpec
from ..model.launch import AUTO, LOCAL
from ..runtimes.container_env import parse_mount

if TYPE_CHECKING:
    from ..plugins.manager import Plugins
    from .layers import Layers


def with_launcher_settings(spec: RunSpec, layers: Layers, plugins: Plugins, recipe: Recipe) -> RunSpec:
    """Add the recipe's defaults for the settings of the run's launcher, and let the launcher complete them."""
    if spec.launcher not in plugins.launchers():
        return spec
    name = plugins.settings_of(spec.launcher)
    kind, defaults = plugins.settings.get(name), recipe.launchers.get(name)
    if kind is not None and defaults:
        joined = with_defaults(kind, spec.plugin_settings.get(name, {}), defaults, f"recipe {recipe.name}")
        layers.origins |= {f"{name}.{place}": origin for place, origin in joined.origins.items()}
        spec = spec.replace(plugin_settings={**spec.plugin_settings, name: joined.values})
    spec = completed(spec.replace(origins=layers.origins), plugins)
    layers.origins = dict(spec.origins)
    return spec


def completed(spec: RunSpec, plugins: Plugins) -> RunSpec:
    """Let the run's launcher set what depends on the rest of the run (see `Launcher.complete_spec`)."""
    launcher = plugins.launchers().get(spec.launcher)
    return launcher.complete_spec(spec) if launcher else spec


def check_settings_used(spec: RunSpec, plugins: Plugins) -> list[Finding]:
    """Return what plugins report about settings of theirs that are set for a run that does not use them.

    Raises `UsageError` for an option of a profiler, framework or launcher that the run does not use. Options of other
    runtimes are ignored unless the plugin reports them (`Settings.unused`).
    """
    findings: list[Finding] = []
    for name, values in spec.plugin_settings.items():
        if _is_used(name, spec, plugins):
            continue
        places = {place.removeprefix(f"{name}."): origin
                  for place, origin in spec.origins.items() if place.startswith(f"{name}.")}  # fmt: skip
        origins = (source for place, source in places.items() if values.get(place.partition(".")[0]))
        option = next((source for source in origins if source.startswith("--")), None)
        if option and (why_not := _why_not(name, spec, plugins)):
            raise UsageError(f"{option} is an option of {name}, {why_not}")
        if kind := plugins.settings.get(name):
            findings += kind.unused(spec)
    return findings


def _is_used(name: str, spec: RunSpec, plugins: Plugins) -> bool:
    """Whether the plugin is the run's framework, one of its profilers, or provides its launcher or runtime."""
    users = {spec.plugin, *spec.profilers}
    users |= {runtime.plugin for key, runtime in plugins.runtimes().items() if spec.runtime in (key, AUTO)}
    if launcher := plugins.launchers().get(spec.launcher):
        users.add(launcher.plugin)
    return name in users


def _why_not(name: str, spec: RunSpec, plugins: Plugins) -> str:
    launchers = [key for key, launcher in plugins.launchers().items() if launcher.plugin == name]
    if launchers:
        return f"but the launcher is {spec.launcher}: add --launcher {launchers[0]}"
    if name in plugins.profilers():
        enable = f"use `llmbx profile --tool {name}`" if plugins.profiler(name).takes_steps else f"add --with {name}"
        return f"which is not enabled: {enable}"
    return f"but {spec.workload} is a workload of {spec.plugin}" if name in plugins.frameworks() else ""


def check_startable(spec: RunSpec, plugins: Plugins, environ: Mapping[str, str]) -> None:
    """Raise `UsageError` for an invalid variable, mount or launcher setting of the user or the cluster profile."""
    for name, value in spec.env.items():
        try:
            check_variable(name, value)
        except UsageError as error:
            raise UsageError(f"{spec.origins.get(f'env.{name}', 'env')}: {error}") from None
    for text in spec.mounts:
        mount = parse_mount(text)
        if spec.launcher == LOCAL and not Path(mount.source).exists():
            raise UsageError(f"mount '{text}': {mount.source} does not exist on this machine")
    launcher = plugins.launchers().get(spec.launcher)
    if launcher:
        launcher.check_spec(spec, environ)
