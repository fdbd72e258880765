"""The loaded plugins: call their hooks, find workloads and tools by name, and trace hook calls."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from .. import hookspecs
from ..catalog.index import listing
from ..config.install import Install
from ..errors import LlmbxError, PluginError, UsageError
from ..launchers.base import Launcher
from ..logs.parser import LogFormat
from ..logs.source_reader import LINES, SourceReader
from ..logs.training_log import TrainingLog
from ..measure.judge import NO_JUDGE, Judge
from ..model import (
    Check,
    Evidence,
    Expected,
    Launch,
    Observed,
    Obstacle,
    Profiler,
    RunGroup,
    RunSpec,
    Section,
    Workload,
)
from ..model.settings import Settings
from ..model.workload import Size
from ..phrases import did_you_mean, synonym
from ..record.folder import Run, read_run
from ..record.history import NO_HISTORY, History, Selection
from ..runtimes.base import Runtime
from . import catalog, hooks, local_sources
from .discovery import GROUP, PluginInfo, discover
from .framework import Framework
from .guards import failed_check, guard_check, guard_format, guard_tool, make_parser
from .hangs import UNLIMITED
from .hooks import trace
from .settings_check import check_settings

if TYPE_CHECKING:
    from .log_parser import CheckedParser

T = TypeVar("T")

SLOW_S = 2.0
"""Report hook calls that take longer than this: every command waits for them."""

HEAVY = frozenset({"predict_run"})
"""Hooks of commands that start or describe a run: slow calls of these hooks are not reported."""


class Plugins:
    """All plugins that could be loaded; `infos` also describes those that could not."""

    def __init__(self, manager: pluggy.PluginManager, infos: list[PluginInfo]) -> None:
        self.manager = manager
        self.infos = infos
        self.times: dict[tuple[str, str], float] = {}
        """Seconds in each hook of each plugin so far."""
        self._runtimes: dict[str, Runtime] | None = None
        self._launchers: dict[str, Launcher] | None = None

    @property
    def broken(self) -> list[PluginInfo]:
        """Plugins that could not be loaded."""
        return [info for info in self.infos if info.error]

    def ask(self, plugin: str, hook: str, **arguments: Any) -> Any:
        """Call one hook of one plugin, inside the hook wrappers of all plugins, and return the validated result.

        Raises `UsageError` for an unknown plugin, `PluginError` if a plugin raises or returns an invalid value.
        """
        if not self.manager.has_plugin(plugin):
            raise UsageError(f"no plugin named '{plugin}'{did_you_mean(plugin, self.frameworks())}")
        began = time.monotonic()
        try:
            return hooks.call(self.manager, plugin, hook, arguments)
        finally:
            self._note_time(plugin, hook, time.monotonic() - began)

    def _note_time(self, plugin: str, hook: str, seconds: float) -> None:
        """Add the time of a call; say so once if it was long and every command waits for this hook."""
        if seconds > SLOW_S and hook not in UNLIMITED | HEAVY and self.times.get((plugin, hook), 0.0) <= SLOW_S:
            print(f"llmbx: plugin '{plugin}' took {seconds:.1f} s in {hook}", file=sys.stderr)
        self.times[plugin, hook] = self.times.get((plugin, hook), 0.0) + seconds

    def gather(self, hook: str, **arguments: Any) -> Iterable[tuple[str, Any]]:
        """Call a hook of every plugin that has it; yield plugin and result. A plugin that fails is disabled."""
        for name in hooks.implementers(self.manager, hook):
            try:
                yield from ((name, answer) for answer in self._ask_without_broken_wrappers(name, hook, **arguments))
            except LlmbxError as error:
                self.disable(name, str(error))

    def _ask_without_broken_wrappers(self, plugin: str, hook: str, **arguments: Any) -> Any:
        """Call a hook of one plugin. A hook wrapper of another plugin that fails is disabled."""
        while True:
            try:
                return self.ask(plugin, hook, **arguments)
            except LlmbxError as error:
                culprit = hooks.culprit(error) or plugin
                if culprit == plugin:
                    raise
                self.disable(culprit, str(error))

    def ask_all(self) -> None:
        """Call the hooks that are called of all plugins, so that `broken` includes plugins that fail there."""
        _ = self.workloads, self.settings, self.source_readers
        self.log_formats()
        self.runtimes()
        self.launchers()

    def frameworks(self) -> list[str]:
        """Return the names of the plugins that have workloads."""
        return hooks.implementers(self.manager, "register_workloads")

    def framework(self, name: str) -> Framework:
        """Return the hooks of one framework. Raises `UsageError` for an unknown name."""
        if name not in self.frameworks():
            uninstalled = "if it is not installed, name its file or folder in LLMBX_PLUGINS"
            raise UsageError(f"no framework plugin named '{name}'{self._meant(name, self.frameworks())}; {uninstalled}")
        return Framework(self, name)

    def framework_at(self, path: str) -> str | None:
        """Return the framework in a file or project folder; None if it has none or several. A name is returned.

        Raises `UsageError` if the plugin cannot be loaded.
        """
        if not local_sources.is_path(path):
            return path
        full = str(Path(path).absolute())
        names = {point.name for point in local_sources.find(Path(full)) if point.group == GROUP}
        for info in self.broken:
            if info.name in names and info.distribution == full:
                raise UsageError(f"--plugin {path}: {info.error}")
        frameworks = [name for name in self.frameworks() if name in names]
        return frameworks[0] if len(frameworks) == 1 else None

    @functools.cached_property
    def workloads(self) -> list[Workload]:
        """Every workload of every plugin, with its plugin's name."""
        return catalog.registered(self)

    @functools.cached_property
    def listed(self) -> list[Workload]:
        """The same for a listing: names, sizes, and one row for each size of a recipe. Read without the rows."""
        with listing():
            return catalog.registered(self)

    @functools.cached_property
    def set_keys(self) -> dict[str, set[str]]:
        """The keys of `--set` that the workloads of each framework declare."""
        keys: dict[str, set[str]] = {}
        for workload in self.workloads:
            keys.setdefault(workload.plugin, set()).update(workload.settings)
        return keys

    @property
    def sizes(self) -> dict[str, Mapping[str, Size]]:
        """The sizes of every workload, by its name and its aliases; a name precedes another workload's alias."""
        sizes: dict[str, Mapping[str, Size]] = {name: w.sizes for w in self.workloads for name in w.aliases}
        return sizes | {workload.name: workload.sizes for workload in self.workloads}

    def workload(self, name: str, plugin: str | None = None) -> Workload:
        """Return the workload of that name, else of that alias. Raises `UsageError` if no plugin or several have it."""
        return catalog.find(self, name, plugin)

    def workload_and_size(self, name: str, size: str | None = None) -> tuple[str, str | None]:
        """Return the name and the size of `WORKLOAD-SIZE`; else the name itself and `size`.

        Raises `UsageError` if the sizes differ.
        """
        return catalog.name_and_size(self.sizes, name, size)

    def log_formats(self) -> list[LogFormat]:
        """Return every log format of every plugin."""
        return [
            guard_format(f, f"plugin '{name}'", self.source_reader)
            for name, formats in self.gather("parse_log", spec=None)
            for f in formats
        ]

    def parser(self, format_: LogFormat, plugin: str) -> CheckedParser:
        """Return a new parser of a log format of a plugin."""
        return make_parser(format_, f"plugin '{plugin}'", self.source_reader)

    @functools.cached_property
    def source_readers(self) -> dict[str, type[SourceReader]]:
        """The readers of files of records, by kind. A plugin that reuses a kind is disabled."""
        readers: dict[str, type[SourceReader]] = {}
        for plugin, kinds in self.gather("register_sources"):
            taken = catalog.duplicate([LINES, *readers, *(reader.kind for reader in kinds)])
            if taken is not None:
                self.disable(plugin, f"plugin '{plugin}': the kind of sources '{taken}' has a reader already")
                continue
            readers |= {reader.kind: reader for reader in kinds}
        return readers

    def source_reader(self, kind: str) -> type[SourceReader]:
        """Return the reader of a kind of files of records. Raises `UsageError` if no plugin registers one."""
        if kind not in self.source_readers:
            raise UsageError(f"no plugin reads files of the kind {kind}{did_you_mean(kind, self.source_readers)}")
        return self.source_readers[kind]

    def runtimes(self) -> dict[str, Runtime]:
        """Return every runtime by name."""
        if self._runtimes is None:
            self._runtimes = self._tools("register_runtimes", Runtime)
        return self._runtimes

    def launchers(self) -> dict[str, Launcher]:
        """Return every launcher by name."""
        if self._launchers is None:  # one object each, as they cache answers of the scheduler
            self._launchers = self._tools("register_launchers", Launcher)
        return self._launchers

    @functools.cached_property
    def settings(self) -> dict[str, type[Settings]]:
        """The settings classes by plugin."""
        kinds: dict[str, type[Settings]] = {}
        for name, _ in self.manager.list_name_plugin():
            try:
                kind = self.settings_class(name)
                if kind is not None:
                    check_settings(name, kind, kinds)
                    kinds[name] = kind
            except LlmbxError as error:
                self.disable(name, str(error))
        return kinds

    @functools.cached_property
    def synonyms(self) -> dict[str, str]:
        """The words of the users of all plugins (see `Settings.synonyms`)."""
        words: dict[str, list[str]] = {}
        for kind in self.settings.values():
            for phrase, own in kind.synonyms.items():
                words.setdefault(phrase, []).append(own)
        return {phrase: " ".join(own) for phrase, own in words.items()}

    def settings_class(self, name: str) -> type[Settings] | None:
        """Return the settings class of a plugin, or None. Raises `LlmbxError` if its hook fails or is wrong."""
        if name not in hooks.implementers(self.manager, "register_settings"):
            return None
        kind: type[Settings] | None = self._ask_without_broken_wrappers(name, "register_settings")
        if kind is not None and kind.plugin != name:
            raise PluginError(f"plugin '{name}': the settings class {kind.__name__} has plugin='{kind.plugin}'")
        return kind

    def settings_of(self, launcher: str) -> str:
        """Return the name of the plugin whose settings apply to the launcher."""
        return self.launcher(launcher).plugin

    def _tools(self, hook: str, kind: type) -> dict[str, Any]:
        """Return the tools that the plugins register, guarded, by name. A plugin that reuses a name is disabled."""
        tools: dict[str, Any] = {}
        owners: dict[str, str] = {}
        for plugin, items in self.gather(hook):
            names = [item.name for item in items]
            taken = catalog.duplicate([*owners, *names])
            if taken is not None:
                owner = f"plugin '{owners[taken]}'" if taken in owners else "itself"
                what = kind.__name__.lower()
                self.disable(plugin, f"plugin '{plugin}': the {what} '{taken}' is already registered by {owner}")
                continue
            tools |= {item.name: guard_tool(item, plugin, kind) for item in items}
            owners |= dict.fromkeys(names, plugin)
        return tools

    def runtime(self, name: str) -> Runtime:
        """Return the runtime of that name. Raises `UsageError` with a suggestion if there is none."""
        return self._choose("runtime", name, self.runtimes())

    def launcher(self, name: str) -> Launcher:
        """Return the launcher of that name. Raises `UsageError` with a suggestion if there is none."""
        return self._choose("launcher", name, self.launchers())

    def profilers(self) -> list[str]:
        """Return the names of the profilers: plugins that wrap launches."""
        return hooks.implementers(self.manager, "wrap_command")

    def profiler(self, name: str) -> Profiler:
        """Return the properties of a profiler. Raises `UsageError` for an unknown name."""
        if name not in self.profilers():
            raise UsageError(f"no profiler named '{name}'{self._meant(name, self.profilers())}")
        return self.ask(name, "register_profiler") or Profiler()

    def obstacle(self, profiler: str, spec: RunSpec) -> Obstacle | None:
        """Return what keeps a profiler from recording the run here, or None (see `hookspecs.profiler_obstacle`)."""
        obstacle: Obstacle | None = self.ask(profiler, "profiler_obstacle", spec=spec)
        return obstacle

    @functools.cached_property
    def judge(self) -> Judge:
        """The judge of what runs measured; one without verdicts if no plugin brings one."""
        return self._only_tool("register_judge", Judge, NO_JUDGE)

    @functools.cached_property
    def history(self) -> History:
        """What remembers the runs of installs; one that knows no run if no plugin brings one."""
        return self._only_tool("register_history", History, NO_HISTORY)

    def _only_tool(self, hook: str, kind: type[T], default: T) -> T:
        """Return the first tool that a plugin registers with the hook, guarded."""
        for name in hooks.implementers(self.manager, hook, newest_first=True):
            try:
                tool: T | None = self.ask(name, hook)
            except LlmbxError as error:
                self.disable(name, str(error))
                continue
            if tool is not None:
                return guard_tool(tool, name, kind)
        return default

    @property
    def judges(self) -> bool:
        """Return whether a plugin brings a judge."""
        return self.judge is not NO_JUDGE

    def checks(self, spec: RunSpec | None, captured_by: Sequence[str] = ()) -> list[Check]:
        """Return the checks of the judge, then those of all plugins, for a run or for a log without one (None).

        Faults make them not possible. Those of a profiler that only a phase of the launch asks for (`captured_by`) are
        warnings.
        """
        own = {spec.plugin, *spec.profilers} if spec else set()
        checks = [*self._judge_checks]
        for name in hooks.implementers(self.manager, "register_checks"):
            try:
                guarded = [guard_check(check, name) for answer in self.ask(name, "register_checks") for check in answer]
            except LlmbxError as error:
                checks.append(failed_check(name, str(error)))
                continue
            if name in captured_by and name not in own:
                checks += [dataclasses.replace(check, effect="warning") for check in guarded]
            else:
                checks += [check for check in guarded if check.runs == "all" or name in own]
        return checks

    @functools.cached_property
    def _judge_checks(self) -> list[Check]:
        """The checks of the judge, whose names are not those of its plugin."""
        if not self.judges:
            return []
        try:
            return [guard_check(check, self.judge.plugin, name=check.id) for check in self.judge.checks()]
        except LlmbxError as error:
            return [failed_check(self.judge.plugin, str(error))]

    def companions(self, spec: RunSpec, launch: Launch) -> list[Launch.Companion]:
        """Return the programs that plugins run beside the ranks of each node."""
        answers = self.gather("register_companions", spec=spec, launch=launch)
        return [companion for _, companions in answers for companion in companions]

    def observe_run(self, evidence: Evidence) -> Observed:
        """Return what a plugin observed of a run; a plugin that fails leaves a warning in the result."""
        if evidence.run_dir is None:
            return Observed()
        try:
            return self._first("observe_run", evidence=evidence) or Observed()
        except PluginError as error:
            return Observed(warnings=(f"what the nodes and ranks did is unknown: {error}",))

    def write_sections(self, path: Path, title: str, sections: Sequence[Section]) -> None:
        """Write a page of sections with the first plugin that can. Raises `UsageError` if no plugin can."""
        if not self._first("write_sections", path=path, title=title, sections=sections):
            raise UsageError(f"{path} was not written: no installed plugin writes pages")

    def read_logs(self, path: Path) -> list[TrainingLog]:
        """Return the training log at a path, or the logs in a folder. Raises `UsageError` if no plugin reads logs."""
        for name in hooks.implementers(self.manager, "read_logs", newest_first=True):
            answers: list[list[TrainingLog]] = self.ask(name, "read_logs", path=path)
            if answers:
                return [log for answer in answers for log in answer]
        raise UsageError(f"{path} was not read: no installed plugin reads training logs")

    def find_runs(self, install: Install, text: str) -> RunGroup | None:
        """Return the runs that `text` names for a plugin (for example a sweep's id); None if no plugin knows it."""
        runs: RunGroup | None = self._first("find_runs", install=install, text=text)
        return runs

    def find_run(self, install: Install, text: str) -> Run:
        """Return the run with this id, unique prefix, job id or folder, the `last`, or the one with the tag in `@NAME`.

        Raises `UsageError` if no run or several match.
        """
        from ..record.names import find_run, tag_named

        tag = tag_named(text)
        if tag is None:
            return find_run(install, text, functools.partial(self._folders_of_job, install))
        named = self.find_runs(install, text)
        if named is None or not named.folders:
            sign = text.removesuffix(tag)
            hint = did_you_mean(text, (f"{sign}{name}" for name in self.history.all_tags(install)))
            raise UsageError(f"no run '{text}'{hint or '; no run has a tag'}")
        return read_run(Path(named.folders[0]))

    def _folders_of_job(self, install: Install, job_id: str) -> list[str] | None:
        """Where runs with this job id may be, from the history; None if it cannot say."""
        select = functools.partial(self.history.select, install)
        try:
            runs = select(Selection(equal={"job_id": (job_id,)})) or select(Selection(where="attempt > 0"))
        except LlmbxError:
            return None
        return [run.folder for run in runs]

    def predict_run(self, spec: RunSpec, install: Install) -> Expected | None:
        """Return what a plugin predicts for a run, in pluggy's order; a known time before none.

        None if no plugin predicts this run.
        """
        unknown: Expected | None = None
        for name in hooks.implementers(self.manager, "predict_run", newest_first=True):
            expected: Expected | None = self.ask(name, "predict_run", spec=spec, install=install)
            if expected is not None and expected.step_time_s.value is not None:
                return expected
            unknown = unknown or expected
        return unknown

    def suspect_nodes(self, spec: RunSpec, install: Install, occasion: str) -> Mapping[str, str]:
        """Return the nodes that a run should not use, each with the reason."""
        return self._first("suspect_nodes", spec=spec, install=install, occasion=occasion) or {}

    def _first(self, hook: str, **arguments: Any) -> Any:
        """Return the first result of a hook that is not None, in pluggy's order."""
        for name in hooks.implementers(self.manager, hook, newest_first=True):
            answer = self.ask(name, hook, **arguments)
            if answer is not None:
                return answer
        return None

    def report_sections(self, spec: RunSpec, run_dir: Path) -> list[Section]:
        """Return the report sections of a run; a plugin that fails has one section with its error."""
        sections: list[Section] = []
        unused = set(self.profilers()).difference(spec.profilers)
        asked = [name for name in hooks.implementers(self.manager, "report_sections") if name not in unused]
        for name in dict.fromkeys((*spec.profilers, *asked)):
            try:
                answers = self.ask(name, "report_sections", spec=spec, run_dir=run_dir)
                sections += [section for answer in answers for section in answer]
            except LlmbxError as error:
                sections.append(Section(name=name, title=name, warnings=(str(error),)))
        return sections

    def _meant(self, name: str, tools: Iterable[str]) -> str:
        phrase = synonym(name, tools, self.synonyms)
        return f": use {phrase}" if phrase else did_you_mean(name, tools)

    def _choose(self, what: str, name: str, tools: dict[str, T]) -> T:
        if name not in tools:
            raise UsageError(f"no {what} named '{name}'{self._meant(name, tools)}")
        return tools[name]

    def disable(self, name: str, error: str) -> None:
        """Leave a plugin out from here on, and print the reason."""
        self.manager.unregister(name=name)
        if vars(self).get("settings", {}).get(name):
            self.settings = {owner: kind for owner, kind in self.settings.items() if owner != name}
        self.infos = [i.replace(error=error) if i.name == name and not i.error else i for i in self.infos]
        print(f"llmbx: {error}; it is disabled", file=sys.stderr)


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
