"""Find the failed rank and node, and the reason why a job ended, in the messages of srun and slurmstepd."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from llmbx.api import RunFile

TAIL = 256 * 1024
"""Number of bytes that are read from the end of the output."""

STARTS = " llmbx: starts as "
"""Part of the first line that the run script prints at each start."""

_TASK = re.compile(r"^srun: error: (?P<node>[^\s:]+): tasks? (?P<ranks>[\d,-]{1,2000}): (?P<what>.+)$", re.MULTILINE)
_NODE = re.compile(r"^srun: error: (?:Node failure on|Aborting.*node failure on) (?P<node>\S+)", re.MULTILINE)
_LAUNCH = re.compile(
    r"^srun: error: Task launch for StepId=\S+ failed on node (?P<node>\S+): (?P<what>.+)$", re.MULTILINE
)
_WAITED = re.compile(r"^srun: First task exited (?P<seconds>\d+)s ago$", re.MULTILINE)
_SRUN = re.compile(r"^srun: (?:error|fatal): (?P<what>.+)$", re.MULTILINE)
_MEMORY = re.compile(
    r"slurmstepd(?:-(?P<node>[^\s:]{1,255}))?: error: (?:StepId=\S{1,99} )?"
    r"(?P<what>[Ee]xceeded \S{0,99}\s?memory limit.*)"
)
_DUE = (
    (re.compile(r"\*\*\* .{0,300} DUE TO TIME LIMIT"), "timeout"),
    (re.compile(r"\*\*\* .{0,300} DUE TO NODE FAILURE"), "node_fail"),
    (re.compile(r"\*\*\* .{0,300} DUE TO PREEMPTION"), "preempted"),
    (
        re.compile(
            r"slurmstepd\S{0,255}: error: .{0,300}(?:Detected \d+ oom|oom.kill|OOM Killed|memory limit)", re.IGNORECASE
        ),
        "out_of_memory",
    ),
    (re.compile(r"\*\*\* (?:JOB|STEP) .{0,300} CANCELLED AT"), "cancelled"),
)


_HUNG = "srun ended the ranks that were still running {seconds} s after the first rank had ended (--wait)"


class Evidence(msgspec.Struct, frozen=True):
    """The rank that failed first, its node, the message and a verdict; None or empty if the output does not have it."""

    rank: int | None = None
    node: str | None = None
    what: str = ""
    verdict: str | None = None


def read_evidence(output: Path | RunFile) -> Evidence:
    """Read the evidence from the output file of a job; empty if the file does not exist."""
    return find_evidence(_tail(output))


def read_step_evidence(log: Path | RunFile) -> Evidence:
    """Read slurmstepd's messages about the end of a step from the log of the ranks.

    "cancelled" is ignored, because a step is also cancelled if one of its ranks fails. A memory limit applies to the
    step on one node, so the node is known (if slurmstepd reports it) but not the rank.
    """
    text = _tail(log)
    limit = _MEMORY.search(text)
    if limit:
        return Evidence(node=limit["node"], what=limit["what"], verdict="out_of_memory")
    verdict = next((verdict for pattern, verdict in _DUE if verdict != "cancelled" and pattern.search(text)), None)
    return Evidence(verdict=verdict)


def _tail(path: Path | RunFile) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL))
            return file.read(TAIL).decode(errors="replace")
    except OSError:
        return ""


def find_evidence(text: str) -> Evidence:
    """Find the evidence in `text`. Only the last start of the job counts (a requeued job starts more than once)."""
    text = text[max(0, text.rfind(STARTS)) :]
    verdict = next((verdict for pattern, verdict in _DUE if pattern.search(text)), None)
    failed = _NODE.search(text)
    if failed:
        return Evidence(node=failed["node"].rstrip(",."), what="the node failed", verdict="node_fail")
    launch_failure = _LAUNCH.search(text)
    if launch_failure and verdict is None:
        what = f"failed to start the ranks: {launch_failure['what'].strip()}"
        return Evidence(node=launch_failure["node"], what=what, verdict="node_fail")
    waited = _WAITED.search(text)
    for match in _TASK.finditer(text):
        ranks = match["ranks"]
        return Evidence(
            rank=int(ranks) if ranks.isdecimal() and len(ranks) < 10 else None,
            node=match["node"],
            what=_HUNG.format(**waited.groupdict()) if waited else match["what"].strip(),
            verdict=verdict,
        )
    messages = _SRUN.findall(text)
    return Evidence(what=f"srun: {messages[-1].strip()}" if messages and verdict is None else "", verdict=verdict)
