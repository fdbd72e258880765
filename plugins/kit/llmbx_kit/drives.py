"""Drive the launchers, runtimes and profilers of a plugin with the settings that its user has."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmbx.api import Launch, Launcher, RunSpec, Runtime
from llmbx.api.contract import cluster_profile, join_settings
from llmbx.api.verbs import Plugins, load_config

from .drive_launcher import drive_launcher
from .drive_profiler import drive_profiler
from .drive_runtime import check_request, drive_runtime
from .driven import Place
from .outcome import Found, together
from .profiler import profiled_spec
from .sample import sample_spec
from .subject import Subject

PATIENCE_S = 60.0
"""Seconds in which a launcher must report a new state, and a scheduler start a job."""

LOCAL = "local"
"""The launcher of this machine."""


def launchers(subject: Subject) -> Found:
    """Drive the launchers of the plugin."""
    tools = subject.plugins.launchers().values()
    parts = [_launcher(tool, subject.plugins) for tool in tools if tool.plugin == subject.name]
    return together([part for parts_of_tool in parts for part in parts_of_tool])


def _launcher(launcher: Launcher, plugins: Plugins) -> list[Found]:
    spec = _spec_for(launcher, plugins)
    with _place(launcher.remote) as place:
        return _prefixed(f"launcher '{launcher.name}'", drive_launcher(launcher, spec, place))


def runtimes(subject: Subject) -> Found:
    """Drive the runtimes of the plugin."""
    tools = subject.plugins.runtimes().values()
    parts = [_runtime(tool, subject) for tool in tools if tool.plugin == subject.name]
    return together([part for parts_of_tool in parts for part in parts_of_tool])


def _runtime(runtime: Runtime, subject: Subject) -> list[Found]:
    plugins, title = subject.plugins, f"runtime '{runtime.name}'"
    launcher = _launcher_for(runtime, plugins)
    if launcher is None:
        why_not = "no launcher that works here can start it"
        return _prefixed(title, [("not checked", [why_not])])
    settings = _settings(runtime.plugin, plugins)
    request = check_request(subject.image).replace(plugin_settings=settings)
    spec = _spec_for(launcher, plugins)
    spec = spec.replace(plugin_settings={**spec.plugin_settings, **settings})
    with _place(launcher.remote) as place:
        return _prefixed(title, drive_runtime(runtime, launcher, spec, request, place))


def profiler(subject: Subject) -> Found:
    """Drive the profiler."""
    name, plugins = subject.name, subject.plugins
    spec = profiled_spec(name).replace(runtime="host")
    for findings in plugins.ask(name, "check_spec", spec=spec):
        for finding in findings:
            if not finding.warning:
                return "not checked", [f"running a program under it: {finding.problem}"]

    def wrap(spec: RunSpec, launch: Launch) -> Launch:
        return plugins.ask(name, "wrap_command", spec=spec, launch=launch) or launch

    with _place(remote=False) as place:
        return together(drive_profiler(wrap, plugins.launcher(LOCAL), spec, place))


def _launcher_for(runtime: Runtime, plugins: Plugins) -> Launcher | None:
    """The first launcher, the local one before others, that works here and with the runtime."""
    tools = sorted(plugins.launchers().values(), key=lambda tool: tool.name != LOCAL)
    working = (tool for tool in tools if not runtime.works_with(tool) and not tool.available())
    return next(working, None)


def _spec_for(launcher: Launcher, plugins: Plugins) -> RunSpec:
    """A run with the user's settings for the launcher, and as the launcher completes it."""
    settings = _settings(launcher.plugin, plugins)
    return launcher.complete_spec(
        sample_spec(
            launcher=launcher.name, runtime="host", gpu_type="cpu", plugin_settings=settings
        )
    )


def _settings(plugin: str, plugins: Plugins) -> dict[str, dict[str, Any]]:
    """The settings of a plugin in the cluster profile and the variables of this process."""
    kind = plugins.settings.get(plugin)
    if kind is None:
        return {}
    profile = cluster_profile(*load_config(), None)
    return {plugin: join_settings(kind, profile, os.environ, {}).values}


def _prefixed(title: str, parts: list[Found]) -> list[Found]:
    return [(status, [f"{title}: {text}" for text in texts]) for status, texts in parts]


@contextlib.contextmanager
def _place(remote: bool) -> Iterator[Place]:
    """A folder for jobs: in the install or the working folder if other machines must see it."""
    shared = Path(os.environ.get("LLMB_INSTALL") or Path.cwd()) if remote else None
    if shared:
        shared.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix="llmbx-check-", dir=shared, ignore_cleanup_errors=True
    ) as folder:
        yield Place(Path(folder), PATIENCE_S)
