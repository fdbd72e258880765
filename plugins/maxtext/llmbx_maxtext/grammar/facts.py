"""Events in MaxText's log: versions, parameters, estimated memory, fatal errors, and llmbx's own lines.

Kinds of event: `fact` (`jax`, `jaxlib`, `parameters`, `estimated_memory_gb`), `note` (the state of a PGLE profile),
`phase_time` (the step time of the run that collected the profile), and the fatal ones `nan`, `config_error` and `entry`
(the entry script could not start the run or convert the profile).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from llmbx.api import Event

Facts = dict[str, str | int | float]

_RULES: tuple[tuple[str, bool, re.Pattern[str], Callable[[re.Match[str]], Facts]], ...] = (
    ("entry", True, re.compile(r"llmbx: error: (?P<what>.+)"), lambda m: {}),
    ("note", False, re.compile(r"llmbx: .*PGLE profile .+"), lambda m: {}),
    ("phase_time", False, re.compile(r"llmbx: its collect phase took (?P<seconds>[\d.]+) s a step"),
     lambda m: {"role": "collect", "step_time_s": float(m["seconds"])}),
    ("nan", True, re.compile(r"Aborting training due to (?:NaN|Inf) loss"), lambda m: {}),
    ("config_error", True, re.compile(r"MAXTEXT CONFIG ERROR: .+"), lambda m: {}),
    ("fact", False, re.compile(r"System Information: (?P<what>Jax|Jaxlib) Version: (?P<version>\S+)"),
     lambda m: {m["what"].lower(): m["version"]}),
    ("fact", False, re.compile(r"number parameters: (?P<billions>[\d.]+) billion"),
     lambda m: {"parameters": round(float(m["billions"]) * 1e9)}),
    ("fact", False, re.compile(r"\[train\] Total estimated memory size: (?P<gb>[\d.]+) GB"),
     lambda m: {"estimated_memory_gb": float(m["gb"])}),
)  # fmt: skip

_SIGNS = ("llmbx: ", "Aborting", "CONFIG ERROR", "number param", "Version:", "estimated memory")


def find(text: str, rank: int | None) -> list[Event]:
    """Return the event of a line, if any."""
    if not any(sign in text for sign in _SIGNS):
        return []
    for kind, fatal, pattern, facts in _RULES:
        if match := pattern.search(text):
            return [Event(kind=kind, text=match[0].strip()[:500], rank=rank, fatal=fatal, facts=facts(match))]
    return []
