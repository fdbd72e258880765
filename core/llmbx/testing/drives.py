"""Drive the launchers, runtimes and profilers of a plugin with the settings that its user has."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ..config.plugin_settings import join
from ..config.profiles import choose_profile, load_config
from ..launchers.base import LOCAL, Launcher
from ..model import Launch, ProfileSpec, RunSpec, TraceSpec
from ..plugins.manager import Plugins
from ..resolve.startable import completed
from ..runtimes.base import Runtime
from .drive_launcher import drive_launcher
from .drive_profiler import drive_profiler
from .drive_runtime import check_request, drive_runtime
from .driven import Place
from .outcome import Found, together
from .sample import sample_spec

PATIENCE_S = 60.0
"""Seconds in which a launcher must report a new state, and a scheduler start a job."""


def launchers(name: str, plugins: Plugins) -> Found:
    """Drive the launchers of the plugin."""
    own = [tool for tool in plugins.launchers().values() if tool.plugin == name]
    return together(
        [found for tool in own for found in _named(f"launcher '{tool.name}'", tool.remote, _launcher(tool, plugins))]
    )


def runtimes(name: str, plugins: Plugins, image: str | None) -> Found:
    """Drive the runtimes of the plugin; `image` is for those that start container images."""
    own = [tool for tool in plugins.runtimes().values() if tool.plugin == name]
    parts = []
    for tool in own:
        launcher = _launcher_for(tool, plugins)
        what = f"runtime '{tool.name}'"
        if launcher is None:
            parts.append(_prefixed(what, ("not checked", ["no launcher that works here can start it"])))
        else:
            parts += _named(what, launcher.remote, _runtime(tool, launcher, image, plugins))
    return together(parts)


def profiler(name: str, plugins: Plugins) -> Found:
    """Drive the profiler."""
    profile = ProfileSpec(start=10, stop=15, ranks="all", tool=name)
    spec = sample_spec(profilers=(name,), profile=profile, trace=TraceSpec(tool=name), runtime="host")
    findings = [found for answer in plugins.ask(name, "check_spec", spec=spec) or [] for found in answer]
    if errors := [finding for finding in findings if not finding.warning]:
        return "not checked", [f"running a program under it: {errors[0].problem}"]

    def wrap(spec: RunSpec, launch: Launch) -> Launch:
        return plugins.ask(name, "wrap_command", spec=spec, launch=launch) or launch

    return together(_named("", False, lambda place: drive_profiler(wrap, plugins.launcher(LOCAL), spec, place)))


def _launcher(launcher: Launcher, plugins: Plugins) -> Callable[[Place], list[Found]]:
    return lambda place: drive_launcher(launcher, with_settings(launcher.name, plugins), place)


def _runtime(
    runtime: Runtime, launcher: Launcher, image: str | None, plugins: Plugins
) -> Callable[[Place], list[Found]]:
    def drive(place: Place) -> list[Found]:
        spec = with_settings(launcher.name, plugins)
        settings = _settings(runtime.plugin, plugins)
        request = check_request(image).replace(plugin_settings=settings)
        spec = spec.replace(plugin_settings={**spec.plugin_settings, **settings})
        return drive_runtime(runtime, launcher, spec, request, place)

    return drive


def _launcher_for(runtime: Runtime, plugins: Plugins) -> Launcher | None:
    """Return the first launcher, the local one before others, that works here and that the runtime works with."""
    by_name = plugins.launchers()
    ordered = [by_name[LOCAL], *(tool for name, tool in by_name.items() if name != LOCAL)]
    return next((tool for tool in ordered if not runtime.works_with(tool) and not tool.available()), None)


def with_settings(launcher: str, plugins: Plugins) -> RunSpec:
    """Return a run for the launcher, with the user's settings of its plugin and as the launcher completes it."""
    settings = _settings(plugins.settings_of(launcher), plugins)
    return completed(sample_spec(launcher=launcher, runtime="host", gpu_type="cpu", plugin_settings=settings), plugins)


def _settings(plugin: str, plugins: Plugins) -> dict[str, dict[str, object]]:
    """The settings of a plugin in the cluster profile and the variables of this process."""
    kind = plugins.settings.get(plugin)
    if kind is None:
        return {}
    profile = choose_profile(*load_config(), None)
    return {plugin: join(kind, profile, os.environ, {}).values}


def _named(what: str, remote: bool, drive: Callable[[Place], list[Found]]) -> list[Found]:
    with _place(remote) as place:
        return [_prefixed(what, found) for found in drive(place)]


def _prefixed(what: str, found: Found) -> Found:
    status, texts = found
    return status, [f"{what}: {text}" if what else text for text in texts]


@contextlib.contextmanager
def _place(remote: bool) -> Iterator[Place]:
    """A folder for the jobs: of the install, or else the working folder, if other machines must see it."""
    shared = os.environ.get("LLMB_INSTALL") or Path.cwd()
    if remote:
        Path(shared).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="llmbx-check-", dir=shared if remote else None, ignore_cleanup_errors=True
    ) as folder:
        yield Place(Path(folder), PATIENCE_S)
