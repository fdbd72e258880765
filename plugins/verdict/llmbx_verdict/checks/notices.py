"""What the log says about how the training ran: a check for each notice of the table of signatures."""

from __future__ import annotations

from functools import partial

from llmbx.api import Answer, Check, Event, Evidence, Signatures

INFINIBAND = "infiniband"
"""A kind of event that says something together with others only."""

SOCKETS = "socket_transport"

LONGEST = 200
"""Number of characters of a line that are quoted."""


def said(kind: str, usual_on_cpu: bool, evidence: Evidence) -> Answer:
    """A line of this kind is in the log."""
    if usual_on_cpu and evidence.spec is not None and evidence.spec.gpu_type == "cpu":
        return None
    events = [event for event in evidence.events if event.kind == kind]
    if not events or (kind == SOCKETS and not _matters(events[0], evidence)):
        return None
    text = events[0].text[:LONGEST]
    rank = f"rank {events[0].rank}: " if events[0].rank is not None else ""
    more = f" (and {len(events) - 1} more lines)" if len(events) > 1 else ""
    return f"{rank}{text}{more}"


def _matters(event: Event, evidence: Evidence) -> bool:
    """Whether sockets are not all that the nodes have: NCCL found InfiniBand, or the line is about gloo."""
    return "Socket" not in event.text or any(event.kind == INFINIBAND for event in evidence.events)


CHECKS = tuple(
    Check(
        notice.check,
        "The lines of the log.",
        notice.means,
        notice.do,
        notice.effect,
        partial(said, notice.event, notice.usual_on_cpu),
    )
    for notice in Signatures.notices()
    if notice.event != INFINIBAND
)
