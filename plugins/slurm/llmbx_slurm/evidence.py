"""What srun and slurmstepd wrote into the job's own output: which rank on which node failed, and what ended the job."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

TAIL = 256 * 1024
"""How much of the output's end is read, in bytes."""

STARTS = " llmbx: starts as "
"""What the script says first, each time it starts."""

_TASK = re.compile(r"^srun: error: (?P<node>[^\s:]+): tasks? (?P<ranks>[\d,-]+): (?P<what>.+)$", re.MULTILINE)
_NODE = re.compile(r"^srun: error: (?:Node failure on|Aborting.*node failure on) (?P<node>\S+)", re.MULTILINE)
_LAUNCH = re.compile(
    r"^srun: error: Task launch for StepId=\S+ failed on node (?P<node>\S+): (?P<what>.+)$", re.MULTILINE
)
_SRUN = re.compile(r"^srun: (?:error|fatal): (?P<what>.+)$", re.MULTILINE)
_MEMORY = re.compile(
    r"slurmstepd(?:-(?P<node>[^\s:]+))?: error: (?:StepId=\S+ )?(?P<what>[Ee]xceeded \S*\s?memory limit.*)"
)
_DUE = (
    (re.compile(r"\*\*\* .* DUE TO TIME LIMIT"), "timeout"),
    (re.compile(r"\*\*\* .* DUE TO NODE FAILURE"), "node_fail"),
    (re.compile(r"\*\*\* .* DUE TO PREEMPTION"), "preempted"),
    (
        re.compile(r"slurmstepd\S*: error: .*(?:Detected \d+ oom|oom.kill|OOM Killed|memory limit)", re.IGNORECASE),
        "out_of_memory",
    ),
    (re.compile(r"\*\*\* (?:JOB|STEP) .* CANCELLED AT"), "cancelled"),
)


class Evidence(msgspec.Struct, frozen=True):
    """The first rank that failed, its node, and a verdict; None where the output does not say."""

    rank: int | None = None
    node: str | None = None
    what: str = ""
    verdict: str | None = None


def read_evidence(output: Path) -> Evidence:
    """The evidence in the output of a job; empty when there is no output."""
    return find_evidence(_tail(output))


def read_step_evidence(log: Path) -> Evidence:
    """What slurmstepd wrote into the ranks' log about the end of their step.

    A bare "cancelled" says nothing there: a step is also cancelled because one of its ranks has failed. A memory limit
    is the step's on one node, so that the node is known, where slurmstepd names it, and the rank is not.
    """
    text = _tail(log)
    over = _MEMORY.search(text)
    if over:
        return Evidence(node=over["node"], what=over["what"], verdict="out_of_memory")
    verdict = next((verdict for pattern, verdict in _DUE if verdict != "cancelled" and pattern.search(text)), None)
    return Evidence(verdict=verdict)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def find_evidence(text: str) -> Evidence:
    """The evidence in `text`, as far as it is of the job's last start (a requeued job starts more than once)."""
    text = text[max(0, text.rfind(STARTS)) :]
    verdict = next((verdict for pattern, verdict in _DUE if pattern.search(text)), None)
    failed = _NODE.search(text)
    if failed:
        return Evidence(node=failed["node"].rstrip(",."), what="the node failed", verdict="node_fail")
    refused = _LAUNCH.search(text)
    if refused and verdict is None:
        what = f"no rank could be started: {refused['what'].strip()}"
        return Evidence(node=refused["node"], what=what, verdict="node_fail")
    for match in _TASK.finditer(text):
        ranks = match["ranks"]
        return Evidence(
            rank=int(ranks) if ranks.isdigit() else None,
            node=match["node"],
            what=match["what"].strip(),
            verdict=verdict,
        )
    said = _SRUN.findall(text)
    return Evidence(what=f"srun: {said[-1].strip()}" if said and verdict is None else "", verdict=verdict)
