"""The conformance suite of a plugin: what `llmbx plugins check` prints and a plugin's own tests assert."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import LlmbxError
from ..phrases import plural
from ..plugins.calls import PLUGIN_EXCEPTIONS, describe_error
from ..plugins.discovery import PluginInfo
from ..plugins.manager import Plugins, load
from . import drives
from .contract import part_problems
from .minis import Minis
from .outcome import Found
from .outcome import Outcome as Outcome

IMPORT_LIMIT_S = 0.05
"""Processor time that loading a plugin and asking it for its workloads and settings may take: every command does it."""

HEAVY_S = 0.01
"""Time from which the import of another package counts as heavy."""


class Subject:
    """The plugin that is checked, a log of its framework, and an image for its runtimes; each mini is trained once."""

    def __init__(self, name: str, log: str | None = None, image: str | None = None) -> None:
        self.name, self.log, self.image = name, log, image
        self.plugins: Plugins = load()
        self.plugins.ask_all()  # a plugin or wrapper that fails there is disabled here
        self.info: PluginInfo | None = next((info for info in self.plugins.infos if info.name == name), None)

    @functools.cached_property
    def minis(self) -> Minis:
        """The minis of all workloads."""
        return Minis(self.name, self.plugins)


def examine(subject: Subject, check: str) -> Outcome:
    """Do one of `CHECKS`. An error of the plugin is a failed check."""
    info = subject.info
    if info is None:
        known = ", ".join(one.name for one in subject.plugins.infos)
        return Outcome(check=check, status="failed", details=(f"no plugin named '{subject.name}' (known: {known})",))
    if info.error and check != "hooks":
        return Outcome(check=check, status="not checked", details=("the plugin cannot be loaded",))
    try:
        status, details = CHECKS[check](subject)
    except PLUGIN_EXCEPTIONS as error:
        status, details = "failed", [str(error) if isinstance(error, LlmbxError) else describe_error(error)]
    return Outcome(check=check, status=status, details=tuple(dict.fromkeys(details)))


def assert_conforms(name: str, check: str, log: str | None = None, image: str | None = None) -> None:
    """Raise `AssertionError` if the plugin fails the check, one of `CHECKS`.

    `log` is a log of its framework, `image` an image for its runtimes.
    """
    __tracebackhide__ = True
    found = examine(_subject(name, log, image), check)
    if found.status == "failed":
        raise AssertionError(
            "\n".join([f"plugin '{name}' fails the check {check}:", *(f"  {d}" for d in found.details)])
        )


@functools.cache
def _subject(name: str, log: str | None, image: str | None) -> Subject:
    return Subject(name, log, image)


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
        return "not checked", ["no log of the framework was given: --log FILE, or tests/*.log in the plugin's folder"]
    return status, details


def _profiler(subject: Subject) -> Found:
    status, details = _part("profiler", "wrap_command", "")(subject)
    return drives.profiler(subject.name, subject.plugins) if status == "ok" else (status, details)


def _tool(hook: str, drive: Callable[[Subject], Found]) -> Callable[[Subject], Found]:
    def check(subject: Subject) -> Found:
        assert subject.info is not None
        if hook not in subject.info.hooks:
            return "not applicable", [f"it has no hook {hook}"]
        if problems := [*part_problems(subject.info, subject.plugins, "tools")]:
            return "failed", problems
        return drive(subject)

    return check


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
        [sys.executable, "-P", "-X", "importtime", "-c", PROBE, name], capture_output=True, text=True, check=False
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
    return subject.minis.trained()


def _flops(subject: Subject) -> Found:
    if subject.info and "compute_flops" not in subject.info.hooks:
        return "not applicable", ["it has no hook compute_flops"]
    return subject.minis.counted()


def _faults(subject: Subject) -> Found:
    """Let each hook raise in turn: llmbx must name the plugin and the hook."""
    plugin = subject.plugins.manager.get_plugin(subject.name)
    problems, count = [], 0
    for caller in subject.plugins.manager.get_hookcallers(plugin) or []:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is plugin and caller.spec is not None:
                count += 1
                problems += _fault(subject, caller.name, caller.spec.argnames, implementation)
    return ("failed", problems) if problems else ("ok", [plural(count, "hooks")])


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
    "profiler": _profiler,
    "launcher": _tool("register_launchers", lambda subject: drives.launchers(subject.name, subject.plugins)),
    "runtime": _tool(
        "register_runtimes", lambda subject: drives.runtimes(subject.name, subject.plugins, subject.image)
    ),
    "mini": _mini,
    "flops": _flops,
    "faults": _faults,
}
"""The checks by name, in the order in which they are done."""
