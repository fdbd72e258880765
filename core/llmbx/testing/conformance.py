"""The conformance suite of a plugin: what `llmbx plugins check` prints and a plugin's own tests assert."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from ..catalog.scales import ANY
from ..entry import operations
from ..errors import LlmbxError
from ..model import Value, Workload
from ..model.settings import fields
from ..plugins.discovery import PluginInfo
from ..plugins.faults import PLUGIN_EXCEPTIONS, describe_error
from ..plugins.manager import Plugins, load
from ..record.folder import read_run
from .contract import part_problems
from .isolation import Isolated
from .running import Done, command

IMPORT_LIMIT_S = 0.05
"""Processor time that loading a plugin and asking it for its workloads and settings may take: every command does it."""

HEAVY_S = 0.01
"""Time from which the import of another package counts as heavy."""

FLOPS_LIMIT = 0.02
"""Largest relative difference between the counted operations of a step and the formula."""

MINI = "mini"

Status = Literal["ok", "failed", "not applicable", "not possible"]


class Outcome(Value, frozen=True):
    """The outcome of one check. `details` are the problems, what was found, or why the check is not possible."""

    check: str
    status: Status
    details: tuple[str, ...] = ()


class Subject:
    """The plugin that is checked, with a log of its framework; its mini is trained at most once."""

    def __init__(self, name: str, log: str | None = None) -> None:
        self.name, self.log = name, log
        self.plugins: Plugins = load()
        self.plugins.ask_all()  # a plugin or wrapper that fails there is disabled here
        self.info: PluginInfo | None = next((one for one in self.plugins.infos if one.name == name), None)

    @functools.cached_property
    def workload(self) -> Workload | None:
        """The first workload with a mini for a CPU."""
        own = (one for one in self.plugins.workloads if one.plugin == self.name)
        return next((one for one in own if _has_mini(one)), None)

    @functools.cached_property
    def mini(self) -> tuple[Done, dict[str, Any] | None]:
        """The run of the mini, and the operations that its program counted, if it did."""
        assert self.workload is not None
        with tempfile.TemporaryDirectory(prefix="llmbx-check-") as folder:
            place = Isolated(Path(folder) / "llmbx").make()
            arguments = ("run", self.workload.name, "--plugin", self.name, "--size", MINI, "--format", "json")
            packages = {**_pip_settings(), **_runtime_settings(self.plugins)}
            done = command(place, *arguments, "--env", f"{operations.VARIABLE}=1", env=packages)
            counted = None
            if done.folder is not None and (file := done.folder / operations.FILE).is_file():
                counted = json.loads(file.read_text())
                spec = read_run(done.folder).record.spec
                counted["formula"] = self.plugins.framework(self.name).compute_flops(spec)
            return done, counted


def examine(subject: Subject, check: str) -> Outcome:
    """Do one of `CHECKS`. An error of the plugin is a failed check."""
    info = subject.info
    if info is None:
        known = ", ".join(one.name for one in subject.plugins.infos)
        return Outcome(check=check, status="failed", details=(f"no plugin named '{subject.name}' (known: {known})",))
    if info.error and check != "hooks":
        return Outcome(check=check, status="not possible", details=("the plugin cannot be loaded",))
    try:
        status, details = CHECKS[check](subject)
    except PLUGIN_EXCEPTIONS as error:
        status, details = "failed", [str(error) if isinstance(error, LlmbxError) else describe_error(error)]
    return Outcome(check=check, status=status, details=tuple(dict.fromkeys(details)))


def assert_conforms(name: str, check: str, log: str | None = None) -> None:
    """Raise `AssertionError` if the plugin fails the check, one of `CHECKS`; `log` is a log of its framework."""
    __tracebackhide__ = True
    found = examine(_subject(name, log), check)
    if found.status == "failed":
        raise AssertionError(
            "\n".join([f"plugin '{name}' fails the check {check}:", *(f"  {d}" for d in found.details)])
        )


@functools.cache
def _subject(name: str, log: str | None) -> Subject:
    return Subject(name, log)


Found = tuple[Status, list[str]]


def _hooks(subject: Subject) -> Found:
    info = subject.info
    assert info is not None
    if info.error:
        return "failed", [f"it cannot be loaded: {info.error}"]
    problems = [*part_problems(info, subject.plugins, "hooks")]
    return ("failed", problems) if problems else ("ok", [", ".join(info.hooks)])


def _part(part: str, hook: str, passed: str) -> Callable[[Subject], Found]:
    def check(subject: Subject) -> Found:
        info = subject.info
        assert info is not None
        if hook and hook not in info.hooks:
            return "not applicable", [f"it has no hook {hook}"]
        problems = [*part_problems(info, subject.plugins, part, subject.log)]
        return ("failed", problems) if problems else ("ok", [passed])

    return check


def _log(subject: Subject) -> Found:
    status, details = _part("log", "parse_log", "broken lines do no harm, and every step of the log is found")(subject)
    if status == "ok" and not subject.log:
        return "not possible", ["no log of the framework was given: --log FILE, or tests/*.log in the plugin's folder"]
    return status, details


def _tools(subject: Subject) -> Found:
    assert subject.info is not None
    if not {"register_runtimes", "register_launchers"} & {*subject.info.hooks}:
        return "not applicable", ["it has no runtime and no launcher"]
    return _part("tools", "", "every member of the interface is there")(subject)


PROBE = """
import sys, time, json
from llmbx import api
from llmbx.api import verbs
from llmbx.plugins.manager import load
from llmbx.plugins.entry_points import entry_points
(point,) = [one for one in entry_points("llmbx") if one.name == sys.argv[1]][:1]
begun, clock = time.process_time(), time.perf_counter()
module = point.load()
for hook in ("register_workloads", "register_settings"):
    getattr(module, hook, list)()
taken, waited = time.process_time() - begun, time.perf_counter() - clock
print(json.dumps([taken, min(1, taken / waited)]))
"""


def _import(subject: Subject) -> Found:
    """The shortest of three processes counts: what else the machine does makes a process slower, never faster."""
    taken, slow = zip(*(_imported(subject.name) for _ in range(3)), strict=True)
    heavy = {name: min(times[name] for times in slow) for name in slow[0] if all(name in times for times in slow)}
    problems = [f"it imports {name}, which takes {1000 * t:.0f} ms: import it in the hook that needs it"
                for name, t in heavy.items()]  # fmt: skip
    if min(taken) > IMPORT_LIMIT_S:
        limit = f"at most {1000 * IMPORT_LIMIT_S:.0f} ms"
        problems.append(f"loading it takes {1000 * min(taken):.0f} ms, expected {limit}: every command loads it")
    return ("failed", problems) if problems else ("ok", [f"{1000 * min(taken):.0f} ms"])


def _imported(name: str) -> tuple[float, dict[str, float]]:
    """Seconds until the plugin is loaded, and the other packages that it imports and that take long."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", PROBE, name], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LlmbxError(f"it cannot be imported: {done.stderr.strip().splitlines()[-1]}")
    taken, share = json.loads(done.stdout.splitlines()[-1])
    return taken, dict(_heavy(done.stderr, name, share))


def _heavy(importtime: str, name: str, share: float) -> Iterator[tuple[str, float]]:
    """The packages of other authors in the output of `-X importtime` that take long after llmbx itself is loaded.

    It prints times on the wall clock; `share` is the part of them for which this process had a processor.
    """
    _, _, after = importtime.rpartition("llmbx.plugins.entry_points\n")
    for line in after.splitlines():
        _, _, rest = line.partition("import time:")
        _, _, found = rest.partition("|")
        total, _, module = found.partition("|")
        package = module.strip().partition(".")[0]
        own = package.startswith("llmbx") or package in sys.stdlib_module_names or package == name
        if total.strip().isdigit() and "." not in module and not own and share * int(total) > 1e6 * HEAVY_S:
            yield package, share * int(total) / 1e6


def _mini(subject: Subject) -> Found:
    if subject.info and "register_workloads" not in subject.info.hooks:
        return "not applicable", ["it has no workload"]
    if subject.workload is None:
        return "not possible", [f"no workload has a size '{MINI}' with a row for a CPU"]
    done, _ = subject.mini
    if done.exit_code or not done.stdout.startswith("{"):
        return "failed", [f"llmbx run ended with exit code {done.exit_code}", *done.stderr.strip().splitlines()[-3:]]
    result = json.loads(done.stdout)
    loss, problems = result["loss"], []
    if not result["data_valid"]:
        problems.append(f"the result is not valid: {result['cause']}")
    if loss["first"] is None or loss["last"] is None or loss["last"] >= loss["first"]:
        problems.append(f"the loss does not fall: {loss['first']} to {loss['last']}")
    passed = f"{result['steps_seen']} steps, loss {loss['first']} to {loss['last']}"
    return ("failed", problems) if problems else ("ok", [passed])


def _flops(subject: Subject) -> Found:
    if subject.info and "compute_flops" not in subject.info.hooks:
        return "not applicable", ["it has no hook compute_flops"]
    if subject.workload is None:
        return "not possible", [f"no workload has a size '{MINI}' with a row for a CPU"]
    done, counted = subject.mini
    if done.exit_code:
        return "not possible", ["the mini does not run"]
    if counted is None:
        return "not possible", ["the program counts no operations: see llmbx.entry.operations"]
    per_sample, formula = counted["flops"] / counted["samples"], counted["formula"]
    apart = {name: per_sample / getattr(formula, name) - 1 for name in ("full", "causal")}
    nearest = min(apart, key=lambda name: abs(apart[name]))
    text = f"counted {per_sample:.4g} per sample, {100 * apart[nearest]:+.2f} % of {formula.formula} ({nearest})"
    return ("ok" if abs(apart[nearest]) <= FLOPS_LIMIT else "failed"), [text]


def _faults(subject: Subject) -> Found:
    """Let each hook raise in turn: llmbx must name the plugin and the hook."""
    plugin = subject.plugins.manager.get_plugin(subject.name)
    problems, count = [], 0
    for caller in subject.plugins.manager.get_hookcallers(plugin) or []:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is plugin and caller.spec is not None:
                count += 1
                problems += _fault(subject, caller.name, caller.spec.argnames, implementation)
    return ("failed", problems) if problems else ("ok", [f"{count} hook{'s' * (count != 1)}"])


def _fault(subject: Subject, hook: str, arguments: tuple[str, ...], implementation: Any) -> list[str]:
    def broken(*_: Any) -> None:
        raise RuntimeError("a fault made on purpose")

    function, implementation.function = implementation.function, broken
    try:
        subject.plugins.ask(subject.name, hook, **dict.fromkeys(arguments))
    except LlmbxError as error:
        named = f"'{subject.name}'" in str(error) and hook in str(error)
        return [] if named else [f"a fault in {hook} is reported without plugin and hook: {error}"]
    finally:
        implementation.function = function
    return [f"a fault in {hook} is not noticed"]


CHECKS: dict[str, Callable[[Subject], Found]] = {
    "hooks": _hooks,
    "import": _import,
    "catalog": _part("catalog", "register_workloads", "every row gives a specification, a launch and a script"),
    "log": _log,
    "profiler": _part("profiler", "wrap_command", "the wrapped launch is valid"),
    "tools": _tools,
    "mini": _mini,
    "flops": _flops,
    "faults": _faults,
}
"""The checks by name, in the order in which they are done."""


def _has_mini(workload: Workload) -> bool:
    rows = [row for recipe in workload.recipes for row in recipe.rows if row.size == MINI]
    return any({"cpu", ANY} & {*row.gpu_types} for row in rows)


def _pip_settings() -> dict[str, str]:
    """The user's configuration and caches of pip and uv: the isolated home has none."""
    home = Path.home()
    files = {"PIP_CONFIG_FILE": home / ".config/pip/pip.conf", "UV_CONFIG_FILE": home / ".config/uv/uv.toml"}
    caches = {"PIP_CACHE_DIR": home / ".cache/pip", "UV_CACHE_DIR": home / ".cache/uv"}
    found = {name: str(path) for name, path in files.items() if path.is_file()}
    return {**found, **{name: str(path) for name, path in caches.items()}, **_of_user(*files, *caches)}


def _runtime_settings(plugins: Plugins) -> dict[str, str]:
    """The user's variables for the plugins of runtimes, which say how environments and images are made."""
    owners = {getattr(runtime, "plugin", "") for runtime in plugins.runtimes().values()}
    kinds = (kind for name, kind in plugins.settings.items() if name in owners)
    return _of_user(*(name for kind in kinds for field in fields(kind) for name in field.option.variables))


def _of_user(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
