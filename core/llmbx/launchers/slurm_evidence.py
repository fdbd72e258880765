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
    try:
        with output.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL))
            return find_evidence(file.read().decode(errors="replace"))
    except OSError:
        return Evidence()


def find_evidence(text: str) -> Evidence:
    """The evidence in `text`, as far as it is of the job's last start (a requeued job starts more than once)."""
    text = text[max(0, text.rfind(STARTS)) :]
    verdict = next((verdict for pattern, verdict in _DUE if pattern.search(text)), None)
    failed = _NODE.search(text)
    if failed:
        return Evidence(node=failed["node"].rstrip(",."), what="the node failed", verdict="node_fail")
    for match in _TASK.finditer(text):
        ranks = match["ranks"]
        return Evidence(
            rank=int(ranks) if ranks.isdigit() else None,
            node=match["node"],
            what=match["what"].strip(),
            verdict=verdict,
        )
    return Evidence(verdict=verdict)
