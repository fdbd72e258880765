"""Measure how long a plugin takes to be imported and to describe itself: every command waits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from llmbx.api import LlmbxError

from .outcome import Found, judged
from .subject import Subject

LIMIT_S = 0.05
"""Processor time that it may take to load a plugin and to ask for its workloads and settings."""

HEAVY_S = 0.01
"""Time from which the import of another package counts as heavy."""

LOADED = "llmbx is loaded"

PROBE = f"""
import sys, time, json
from llmbx.api.contract import entry_points
from llmbx.api.verbs import load_plugins
point = next(point for point in entry_points("llmbx") if point.name == sys.argv[1])
print("{LOADED}", file=sys.stderr)
begun, clock = time.process_time(), time.perf_counter()
module = point.load()
for hook in ("register_workloads", "register_settings"):
    getattr(module, hook, list)()
busy, elapsed = time.process_time() - begun, time.perf_counter() - clock
print(json.dumps([busy, min(1, busy / elapsed)]))
"""


def import_time(subject: Subject) -> Found:
    """The shortest of three processes counts: other work makes a process slower, never faster."""
    seconds, packages = zip(*(_measured(subject.name) for _ in range(3)), strict=True)
    always = set.intersection(*map(set, packages))
    problems = []
    for name in (name for name in packages[0] if name in always):
        ms = 1000 * min(heavy[name] for heavy in packages)
        takes = f"which takes {ms:.0f} ms"
        problems.append(f"it imports {name}, {takes}: import it in the hook that needs it")
    ms = 1000 * min(seconds)
    if ms > 1000 * LIMIT_S:
        limit = f"expected at most {1000 * LIMIT_S:.0f} ms"
        problems.append(f"loading it takes {ms:.0f} ms, {limit}: every command loads it")
    return judged(problems, f"{ms:.0f} ms")


def _measured(name: str) -> tuple[float, dict[str, float]]:
    """Seconds until the plugin is loaded, and the other packages it imports that take long."""
    python = [sys.executable, "-P", "-X", "importtime", "-c", PROBE, name]
    done = subprocess.run(python, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LlmbxError(f"it cannot be imported: {done.stderr.strip().splitlines()[-1]}")
    seconds, share = json.loads(done.stdout.splitlines()[-1])
    _, _, lines = done.stderr.rpartition(LOADED)
    return seconds, dict(_heavy(lines, name, share))


def _heavy(importtime: str, name: str, share: float) -> Iterator[tuple[str, float]]:
    """The packages of other authors in the output of `-X importtime` that take long.

    It prints times on the wall clock; `share` is the part for which this process had a processor.
    """
    for line in importtime.splitlines():
        _, _, columns = line.partition("import time:")
        _, microseconds, module = (*columns.split("|"), "", "", "")[:3]
        module = module.strip()
        if "." in module or not microseconds.strip().isdigit():
            continue
        seconds = share * int(microseconds) / 1e6
        expected = module.startswith("llmbx") or module in (name, *sys.stdlib_module_names)
        if seconds > HEAVY_S and not expected:
            yield module, seconds
