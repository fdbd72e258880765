"""Discovery of plugins by entry point, selection of the one to ask, and tracing of every hook call."""

from __future__ import annotations

import collections
import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pluggy

from .. import hookspecs
from ..config.install import Install
from ..errors import LlmbxError, PluginError, UsageError, did_you_mean
from ..launchers.base import Launcher
from ..logs.parser import LogFormat, LogParser
from ..model import Finding, Image, ImageRequest, Launch, Profiler, RunGroup, RunSpec, Section, Workload
from ..model.flops import Flops
from ..model.settings import Settings
from ..runtimes.base import Runtime
from . import proxy
from .discovery import PluginInfo, discover
from .isolation import guarded
from .log_parser import Grammar, walled
from .validation import checked, promised, with_article

T = TypeVar("T")


class Framework:
    """The chosen framework's hooks: each call goes to this one plugin, with its name in any error."""

    def __init__(self, plugins: Plugins, name: str) -> None:
        self.name = name
        self._plugins = plugins

    def check_spec(self, spec: RunSpec) -> list[Finding]:
        """The framework's own findings (see `hookspecs.check_spec`)."""
        return [f for found in self._plugins.ask(self.name, "check_spec", spec=spec) or [] for f in found]

    def check_profilers(self, spec: RunSpec) -> list[Finding]:
        """The findings of the profilers that the run names. Raises `UsageError` for one that is unknown."""
        found = []
        for name in spec.profilers:
            self._plugins.profiler(name)
            found += [f for answer in self._plugins.ask(name, "check_spec", spec=spec) or [] for f in answer]
        return found

    def prepare_image(self, spec: RunSpec) -> ImageRequest:
        """What the run needs around it (see `hookspecs.prepare_image`)."""
        request: ImageRequest = self._must("prepare_image", ImageRequest, spec=spec)
        return request

    def build_command(self, spec: RunSpec, image: Image) -> Launch:
        """The launch (see `hookspecs.build_command`)."""
        launch: Launch = self._must("build_command", Launch, spec=spec, image=image)
        return launch

    def parse_log(self, spec: RunSpec | None) -> Grammar:
        """A fresh parser (see `hookspecs.parse_log`)."""
        return Grammar(self._must("parse_log", LogParser, spec=spec), f"plugin '{self.name}'")

    def compute_flops(self, spec: RunSpec) -> Flops | None:
        """FLOPs of one sample, or None when the plugin has no formula (see `hookspecs.compute_flops`)."""
        answer: Flops | None = self._plugins.ask(self.name, "compute_flops", spec=spec)
        return answer

    def _must(self, hook: str, kind: type, **arguments: Any) -> Any:
        answer = self._plugins.ask(self.name, hook, **arguments)
        if answer is None:
            raise PluginError(f"plugin '{self.name}': {hook} returned nothing, expected {with_article(kind.__name__)}")
        return answer


class Plugins:
    """All plugins that could be loaded, and what is known of those that could not."""

    def __init__(self, manager: pluggy.PluginManager, infos: list[PluginInfo]) -> None:
        self.manager = manager
        self.infos = infos
        self._runtimes: dict[str, Runtime] | None = None
        self._launchers: dict[str, Launcher] | None = None

    @property
    def broken(self) -> list[PluginInfo]:
        """Plugins that could not be loaded."""
        return [info for info in self.infos if info.error]

    def ask(self, plugin: str, hook: str, **arguments: Any) -> Any:
        """Call one hook of one plugin. An exception of the plugin's becomes an error that names it."""
        chosen = self.manager.get_plugin(plugin)
        if chosen is None:
            raise UsageError(f"no plugin named '{plugin}'{did_you_mean(plugin, self.frameworks())}")
        others = [p for p in self.manager.get_plugins() if p is not chosen]
        with guarded(f"plugin '{plugin}' failed in {hook}"):
            answer = self.manager.subset_hook_caller(hook, remove_plugins=others)(**arguments)
        what = f"plugin '{plugin}': {hook}"
        return [checked(what, hook, one) for one in answer] if promised(hook)[0] else checked(what, hook, answer)

    def gather(self, hook: str) -> Iterable[tuple[str, Any]]:
        """Every plugin's answer to a hook that is asked of all; a plugin that fails is set aside as broken."""
        for name, plugin in self.manager.list_name_plugin():
            if plugin is None or not self._implements(plugin, hook):
                continue
            try:
                for answer in self.ask(name, hook):
                    yield name, answer
            except LlmbxError as error:
                self._set_aside(name, str(error))

    def ask_all(self) -> None:
        """Ask every plugin what is asked of all, so that one that fails there is known as broken."""
        _ = self.workloads
        self.log_formats()
        self.runtimes()
        self.launchers()

    def frameworks(self) -> list[str]:
        """Names of the plugins that have workloads."""
        return [n for n, p in self.manager.list_name_plugin() if p and self._implements(p, "register_workloads")]

    def framework(self, name: str) -> Framework:
        """The hooks of one framework."""
        if name not in self.frameworks():
            raise UsageError(f"no framework plugin named '{name}'{did_you_mean(name, self.frameworks())}")
        return Framework(self, name)

    @functools.cached_property
    def workloads(self) -> list[Workload]:
        """Every workload of every plugin, with its plugin's name."""
        all_: list[Workload] = []
        for plugin, found in self.gather("register_workloads"):
            twice = duplicate(name for workload in found for name in {workload.name, *workload.aliases})
            if twice is None:
                all_ += [workload.replace(plugin=plugin) for workload in found]
            else:
                self._set_aside(plugin, f"plugin '{plugin}' has two workloads named '{twice}'")
        return all_

    def workload(self, name: str, plugin: str | None = None) -> Workload:
        """The workload of that name or alias. Raises `UsageError` when none or several plugins have it."""
        if plugin is not None:
            self.framework(plugin)
        candidates = [w for w in self.workloads if plugin in (None, w.plugin)]
        found = [w for w in candidates if name == w.name or name in w.aliases]
        owners = sorted({w.plugin for w in found})
        if len(owners) > 1:
            claimed = f"workload '{name}' is claimed by the plugins {' and '.join(owners)}"
            raise UsageError(f"{claimed}; choose one with --plugin {owners[0]}")
        if not found:
            where = f" in plugin '{plugin}'" if plugin else ""
            names = [n for w in candidates for n in (w.name, *w.aliases)]
            hint = did_you_mean(name, names)
            if hint.startswith(" (known"):
                hint = f" (known: {', '.join(sorted(w.name for w in candidates))})"
            raise UsageError(f"no workload named '{name}'{where}{hint}")
        return found[0]

    def log_formats(self) -> list[LogFormat]:
        """Every log format of every plugin."""
        return [walled(f, f"plugin '{name}'") for name, found in self.gather("log_formats") for f in found]

    def runtimes(self) -> dict[str, Runtime]:
        """Every runtime by name."""
        if self._runtimes is None:
            self._runtimes = self._tools("register_runtimes", "runtime", proxy.runtime)
        return self._runtimes

    def launchers(self) -> dict[str, Launcher]:
        """Every launcher by name."""
        if self._launchers is None:  # they remember what the scheduler said: there is one of each
            self._launchers = self._tools("register_launchers", "launcher", proxy.launcher)
        return self._launchers

    @functools.cached_property
    def settings(self) -> dict[str, type[Settings]]:
        """The settings classes by plugin."""
        found: dict[str, type[Settings]] = {}
        for name, plugin in self.manager.list_name_plugin():
            if plugin is None or not self._implements(plugin, "register_settings"):
                continue
            try:
                kind = self.ask(name, "register_settings")
                if kind is not None and kind.plugin != name:
                    raise PluginError(f"plugin '{name}': the settings class {kind.__name__} says that it is "
                                      f"of plugin '{kind.plugin}'")  # fmt: skip
            except LlmbxError as error:
                self._set_aside(name, str(error))
                continue
            if kind is not None:
                found[name] = kind
        return found

    def settings_of(self, launcher: str) -> str:
        """The name of the plugin whose settings the launcher has."""
        return str(getattr(self.launcher(launcher), "plugin", launcher))

    def _tools(self, hook: str, what: str, wall: Callable[[Any, str], T]) -> dict[str, T]:
        """What the plugins register by name, each behind its wall. Of equal names the first one, core's, has it."""
        found: dict[str, T] = {}
        owners: dict[str, str] = {}
        for plugin, items in self.gather(hook):
            names = [item.name for item in items]
            taken = duplicate([*owners, *names])
            if taken is not None:
                has = f"plugin '{owners[taken]}'" if taken in owners else "itself"
                self._set_aside(plugin, f"plugin '{plugin}': the {what} '{taken}' is taken by {has}")
                continue
            found |= {item.name: wall(item, plugin) for item in items}
            owners |= dict.fromkeys(names, plugin)
        return found

    def runtime(self, name: str) -> Runtime:
        """The runtime of that name, or a `UsageError` with a suggestion."""
        return self._choose("runtime", name, self.runtimes())

    def launcher(self, name: str) -> Launcher:
        """The launcher of that name, or a `UsageError` with a suggestion."""
        return self._choose("launcher", name, self.launchers())

    def profilers(self) -> list[str]:
        """Names of the plugins that wrap launches."""
        return [n for n, p in self.manager.list_name_plugin() if p and self._implements(p, "wrap_command")]

    def profiler(self, name: str) -> Profiler:
        """What the profiler does to its runs. Raises `UsageError` for one that is unknown."""
        if name not in self.profilers():
            raise UsageError(f"no profiler named '{name}'{did_you_mean(name, self.profilers())}")
        return self.ask(name, "register_profiler") or Profiler()

    def write_sections(self, path: Path, title: str, sections: Sequence[Section]) -> None:
        """Write a page of sections with the first plugin that can. Raises `UsageError` where none can."""
        if not self._first("write_sections", path=path, title=title, sections=sections):
            raise UsageError(f"no plugin writes pages: {path} was not written")

    def find_runs(self, install: Install, text: str) -> RunGroup | None:
        """The runs that `text` names for a plugin (a sweep's id, say); None where no plugin knows it."""
        found: RunGroup | None = self._first("find_runs", install=install, text=text)
        return found

    def _first(self, hook: str, **arguments: Any) -> Any:
        """The first answer of any plugin to a hook."""
        for name, plugin in self.manager.list_name_plugin():
            if plugin is not None and self._implements(plugin, hook):
                answer = self.ask(name, hook, **arguments)
                if answer is not None:
                    return answer
        return None

    def report_sections(self, spec: RunSpec, run_dir: Path) -> list[Section]:
        """What the run's profilers tell of its artefacts; one that cannot tell says why in a section of its own."""
        found: list[Section] = []
        for name in spec.profilers:
            try:
                answers = self.ask(name, "report_sections", spec=spec, run_dir=run_dir)
                found += [section for answer in answers for section in answer]
            except LlmbxError as error:
                found.append(Section(name=name, title=name, warnings=(str(error),)))
        return found

    def _choose(self, what: str, name: str, known: dict[str, T]) -> T:
        if name not in known:
            raise UsageError(f"no {what} named '{name}'{did_you_mean(name, known)}")
        return known[name]

    def _implements(self, plugin: Any, hook: str) -> bool:
        return any(caller.name == hook for caller in self.manager.get_hookcallers(plugin) or [])

    def _set_aside(self, name: str, error: str) -> None:
        self.manager.unregister(name=name)
        self.infos = [i.replace(error=error) if i.name == name and not i.error else i for i in self.infos]
        print(f"llmbx: {error}; going on without it", file=sys.stderr)


def duplicate(names: Iterable[str]) -> str | None:
    """The first name that is there twice."""
    counts = collections.Counter(names)
    return next((name for name, count in counts.items() if count > 1), None)


@functools.cache
def load() -> Plugins:
    """Load every plugin named by an entry point of the group `llmbx`; a broken one is reported, never fatal."""
    manager = pluggy.PluginManager("llmbx")
    manager.add_hookspecs(hookspecs)
    if os.environ.get("LLMBX_TRACE_HOOKS", "") not in ("", "0"):
        trace(manager, lambda line: print(line, file=sys.stderr))
    infos = discover(manager)
    for info in infos:
        if info.error:
            print(f"llmbx: plugin '{info.name}' ({info.distribution}) cannot be loaded: {info.error}", file=sys.stderr)
        elif info.warning:
            print(f"llmbx: plugin '{info.name}' ({info.distribution}): {info.warning}", file=sys.stderr)
    return Plugins(manager, sorted(infos, key=lambda info: info.name))


def trace(manager: pluggy.PluginManager, emit: Callable[[str], None]) -> None:
    """Emit one line before and one after every hook call, with the plugins asked and what came back."""

    def before(hook: str, implementations: Any, arguments: Any) -> None:
        asked = ", ".join(i.plugin_name for i in implementations) or "nobody"
        emit(f"hook {hook}({', '.join(arguments)}) -> {asked}")

    def after(outcome: Any, hook: str, implementations: Any, arguments: Any) -> None:
        error = outcome.exception
        answer = f"raised {type(error).__name__}: {error}" if error else _brief(outcome.get_result())
        emit(f"hook {hook} <- {answer}")

    manager.add_hookcall_monitoring(before, after)


def _brief(answer: Any) -> str:
    if isinstance(answer, list):
        return f"[{', '.join(_brief(a) for a in answer)}]"
    if isinstance(answer, tuple):
        return f"{len(answer)} items"
    return "None" if answer is None else type(answer).__name__
