"""Did it end as the framework ends? The last line, and failures that an exit code of 0 hides."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Answer, Check, Event, Evidence, Finding, NotPossible

CRASHES = ("out_of_memory", "gpu_error", "nccl_error", "segfault", "exception", "killed", "rank_exit", "node_fail")
"""Kinds of event after the last step that are a crashed teardown, the most telling first."""

BROKEN = ("out_of_memory", "gpu_error", "nccl_error", "network_error", "segfault", "killed", "disk_full", "file_error")
"""Kinds of event before the last step that a training survives only by chance."""

BEFORE = "the training did not reach its end; its cause is already known"

EXCERPT = "the log is an excerpt, or a fork's: it has neither the framework's first lines nor its last one"
"""Of a log that `grep` left, and of a fork that prints other lines."""

NOT_ANNOUNCED = "the log does not announce its last step, or does not have it"
"""As above, for a log without a run."""


def last_line(evidence: Evidence) -> Answer:
    """The framework's last line is missing."""
    if evidence.prints is None or not evidence.prints.finished:
        return NotPossible(reason="the format has no last line")
    if not evidence.ended_well:
        return _not_ended(evidence)
    if any(event.kind == "finished" for event in evidence.events):
        return None
    if evidence.spec is None and not any(event.kind == "started" for event in (*evidence.earlier, *evidence.events)):
        return (Finding(rule="last-line", problem=EXCERPT, fix="parse the whole log", warning=True),)
    return "the framework's last line is missing: it was ended before it had finished"


def crash(evidence: Evidence) -> Answer:
    """A failure after the last step."""
    if not evidence.ended_well:
        return _not_ended(evidence)
    # Training survives the exception of a thread; after the last step of a run it is its end that failed.
    threads = [event.replace(fatal=True) for event in evidence.after if evidence.spec and "thread" in event.facts]
    event = _first([*evidence.after, *threads], CRASHES)
    return f"after the last step: {_line(event)}" if event else None


def failure_inside(evidence: Evidence) -> Answer:
    """A failure of the machine before the last step."""
    inside = evidence.events[: len(evidence.events) - len(evidence.after)]
    event = _first(inside, BROKEN)
    if event is None or (evidence.spec is not None and not evidence.ended_well):
        return None  # of a run that did not reach its end, the cause is already known
    return f"the log has a failure before the last step: {_line(event)}"


def _not_ended(evidence: Evidence) -> NotPossible:
    return NotPossible(reason=BEFORE if evidence.spec else NOT_ANNOUNCED)


def _first(events: Sequence[Event], kinds: Sequence[str]) -> Event | None:
    fatal = [event for event in events if event.fatal and event.kind in kinds]
    return min(fatal, key=lambda event: kinds.index(event.kind), default=None)


def _line(event: Event) -> str:
    text = event.text if len(event.text) <= 300 else event.text[:297] + "…"
    return f"rank {event.rank}: {text}" if event.rank is not None else text


CHECKS = (
    Check(
        "last-line", "The line that the framework prints when training has ended, if its format has one.",
        "The process ended with 0, but not through the end of the framework: its teardown crashed. The data is kept.",
        "Read the end of the log and the exit codes of the ranks.", "failed", last_line,
    ),
    Check(
        "crash-at-end", "Failures in the log after the last step: out of memory, an illegal access, NCCL, Xid, a "
        "traceback.", "The teardown crashed, although the exit code is 0. The data is kept.",
        "Read the end of the log; check the GPU named there.", "failed", crash,
    ),
    Check(
        "failure-inside", "Failures of GPU, memory and network in the log before the last step.",
        "The training went on, but a GPU or the network may be damaged.", "Check the node before the next run.",
        "warning", failure_inside,
    ),
)  # fmt: skip
