"""Who failed first, with what, and what followed: the events of a log in the order of time.

The earliest failure that is not an echo is the cause. What a line is (a reason of its own, a lost contact, a watchdog,
an end) is data, in `data/failures.toml`; by which kind of failure it is, nothing is ordered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from ..model.failure import Echo, Failure
from ..model.step import Event
from .signature_table import BY, Role, explained, match

MOST_RANKS = 16
"""Maximum number of ranks that are named."""

MOST_ECHOES = 200
"""Maximum number of echoes that are kept."""

TOGETHER_S = 1.0
"""Failures of different ranks within this time are a tie."""

WENT_ON = 3
"""Training steps after an event that show that the run survived it. One or two may be printed late by another rank."""

_ROLES: dict[str, Role] = {
    "exception": "cause",
    "interrupted": "stopped",
    "rank_exit": "end",
    "nccl_warning": "detail",
    "container_error": "cause",
}
_GENERIC = re.compile(r"nccl\w{1,40}Error|DistBackendError|NCCL operation|NCCL error")
_STEP_OF = re.compile(r"\btasks? ([\d,-]+):")
_ENDED_BY_OTHERS = re.compile(r"SIGTERM|\bsignal 15\b")
_QUOTED = "quoted"
_ZONE = re.compile(r"[+-]\d\d:\d\d$")
_REFUSED = re.compile(
    r"\b40[0134]\b|[Uu]nauthorized|denied: |access forbidden|manifest unknown|not found: manifest|NotFound"
    r"|(?:/bin/(?:ba)?sh|executable file)\S{0,100}:? .{0,60}(?:[Nn]o such file|not found)|unknown flag"
    r"|[Ee]xec format error"
    r"|No such file or directory: \S{1,300}\.(?:sqsh|sif)|failed to mount: .{1,300}No such file|could not open image"
)

FIRST = "first"
"""Fact of an event of a launcher: this rank ended before all others. Its place among the lines of a log is unknown."""

CRASHES = tuple(128 + number for number in (4, 7, 8, 9, 11))
"""Exit codes of SIGILL, SIGBUS, SIGFPE, SIGKILL and SIGSEGV, as shells have them."""

CONNECTING = ("network_error", "nccl_error", "port_in_use")
"""Kinds of failure that the network may cause before the first step; later, the death of a rank looks the same."""

PROGRESS = "progress"
"""Kind of the event of a line that shows that a program of an unknown format continued."""

SURVIVED = "training steps follow it in the log"
"""The doubt about a failure that the training survived, if the lines are in the order in which they were printed."""


def failure(
    events: Sequence[Event], later_steps: Sequence[int] = (), stepped: bool = False, failed: bool = False
) -> Failure | None:
    """The first failure among the events of one attempt, in the order of the log; None if there is none.

    `later_steps` is the number of training steps after each event (none: unknown), `stepped` whether the attempt made a
    step: before its first step, a network that cannot be connected is worth a retry elsewhere, later it may be an echo.
    If it is known that the run `failed`, and nothing else explains it, a failure that steps follow is better than none:
    what a program prints may be buffered, and its errors are not.
    """
    first_failure = _failure(events, later_steps, stepped)
    if first_failure is None and failed and (first_failure := _failure(events, (), stepped, failed=True)):
        return first_failure.replace(doubt=first_failure.doubt or SURVIVED)
    return first_failure


def _failure(
    events: Sequence[Event], later_steps: Sequence[int], stepped: bool, failed: bool = False
) -> Failure | None:
    nodes = _places(events)
    survived = {place for place, count in enumerate(later_steps) if count >= WENT_ON}
    survived |= set() if failed else _went_on(events)
    lasting = [event for place, event in enumerate(events) if place not in survived or _is_lasting(event)]
    lasting = [event for event in lasting if role(event) != "notice"]
    ordered = _by_time(lasting)
    first = _first(ordered, failed)
    if first is None:
        return None
    best = _detailed(_explained(first, ordered), ordered)
    same = [event for event in ordered if event.kind == best.kind and _alike(event.text, best.text)]
    if role(best) == "scheduler":
        same = [event for event in ordered if event.kind == best.kind]
    ranks = sorted({event.rank for event in same if event.rank is not None})
    if not ranks and best.rank is None:
        named = {event.rank for event in ordered if event.kind == best.kind and event.rank is not None}
        ranks = sorted(named) if len(named) == 1 else []
    rank = _rank(first, best, ranks, ordered)
    doubt, ranks = _doubt(first, best, rank, ranks, ordered)
    rank = None if doubt else rank
    node = (
        best.node
        or first.node
        or next((event.node for event in same if event.node), None)
        or nodes.get(rank if rank is not None else -1)
        or _only_node(ordered, rank, best)
    )
    return Failure(
        cause=best.text,
        kind=best.kind,
        rank=rank,
        ranks=tuple(ranks[:MOST_RANKS]),
        node=node,
        time=best.time or first.time,
        doubt=doubt,
        infrastructure=_infrastructure(best, stepped),
        echoes=tuple(_echoes(ordered, first, best)),
        unrelated=tuple(_echo(events[place]) for place in sorted(survived) if events[place].fatal)[:MOST_ECHOES],
    )


def _went_on(events: Sequence[Event]) -> set[int]:
    """The places of the events that a log of no known format shows to be survived."""
    progress = [place for place, event in enumerate(events) if event.kind == PROGRESS]
    return set(range(progress[-WENT_ON])) if len(progress) >= WENT_ON else set()


def _is_lasting(event: Event) -> bool:
    """Whether a fault may be the cause of a failure long after it; the hardware's may."""
    return role(event) == "precursor" and "thread" not in event.facts


def role(event: Event) -> Role:
    """The role of an event in a failure; a fatal event without a signature is a cause."""
    if "wraps" in event.facts:
        return "detail"
    if "thread" in event.facts:
        return "precursor"
    return _role(event.kind, event.text, event.fatal)


@lru_cache(maxsize=1 << 13)
def _role(kind: str, text: str, fatal: bool) -> Role:
    if kind == "interrupted":
        return "stopped"
    signature = match(text)
    if signature is not None and (signature.kind == kind or kind in ("nccl_warning", "exception")):
        return signature.role
    return _ROLES.get(kind, "cause" if fatal else "detail")


def _first(ordered: Sequence[Event], failed: bool) -> Event | None:
    """The earliest failure that is not an echo.

    Reasons come first, then faults of the hardware before the ranks lost each other, then a rank that ended without a
    word before the others noticed, then those that lost a peer, those that a watchdog names, and any end or watchdog.
    """
    roles = [role(event) for event in ordered]
    cancelled = next((place for place, event in enumerate(ordered) if event.kind == "cancelled"), len(ordered))
    noticed = next((place for place, what in enumerate(roles) if what in ("contact", "watchdog")), len(ordered))
    watched = next((place for place, what in enumerate(roles) if what == "watchdog"), len(ordered))
    scheduled = [place for place, what in enumerate(roles) if what == "scheduler"]
    reasons = [
        place for place, what in enumerate(roles) if what == "cause" and place < min(scheduled, default=len(roles))
    ]
    ended = [place for place, what in enumerate(roles) if what == "end" and _by_itself(place, ordered, roles)]
    if cancelled < len(ordered) and all(what in ("detail", "precursor") for what in roles[:cancelled]):
        return None  # by its user; what ranks print while they are being stopped is not the cause
    if reasons:
        silent = [
            place for place in ended
            if (place < reasons[0] or _crashed(ordered[place])) and _silent(ordered[place], ordered)
        ]  # fmt: skip
        return ordered[min(silent, default=reasons[0])]
    faults = [place for place, what in enumerate(roles) if what == "precursor" and place < noticed]
    for places in (
        faults if failed or scheduled or ended or noticed < len(ordered) else [],
        [place for place in scheduled if place < watched or _decided(ordered[place])],
        ended,
        [place for place, event in enumerate(ordered) if event.kind == "nccl_lagging"],
        [place for place, what in enumerate(roles) if what == "contact"],
        [place for place, what in enumerate(roles) if what == "watchdog"],
        scheduled,
        [place for place, what in enumerate(roles) if what == "end" and not _ended_by_others(ordered[place])],
    ):
        before = [place for place in places if place < cancelled or FIRST in ordered[place].facts]
        if before:
            return ordered[before[0]]
    return None


def _decided(event: Event) -> bool:
    """Whether the scheduler ended the job for a reason of its own, which the ranks may notice before it is printed."""
    return event.kind in ("node_fail", "preempted")


def _by_itself(place: int, ordered: Sequence[Event], roles: Sequence[Role]) -> bool:
    """Whether the rank of an end was neither ended by others nor had lost another rank or waited for it before."""
    event = ordered[place]
    if event.facts.get("root"):
        return True
    if FIRST in event.facts:
        notices = [notice for notice in ordered if role(notice) in ("contact", "watchdog")]
        waited = {notice.facts.get(BY, notice.rank) for notice in notices}
        return event.rank not in waited
    if _ended_by_others(event) or "SIGABRT" in event.text or event.facts.get("exit_code") in (134, -6):
        return False
    for earlier, what in zip(ordered[:place], roles, strict=False):
        lost = what in ("contact", "watchdog") and event.rank in (None, earlier.rank)
        if lost or (what == "stopped" and earlier.rank in (None, event.rank)):
            return False
    return True


def _ended_by_others(event: Event) -> bool:
    """Whether the launcher ended the rank."""
    return _ENDED_BY_OTHERS.search(event.text) is not None or event.facts.get("exit_code") in (143, -15, 0)


def _crashed(event: Event) -> bool:
    """Whether the rank that ended first did so by a signal that is never sent to end a rank in order."""
    return FIRST in event.facts and event.facts.get("exit_code") in CRASHES


def _silent(ended: Event, ordered: Sequence[Event]) -> bool:
    """Whether a rank ended without a line that says why."""
    return ended.rank is not None and not any(
        event.rank in (ended.rank, None) for event in ordered if role(event) == "cause"
    )


def _by_time(events: Sequence[Event]) -> list[Event]:
    """The events in the order of their times; one without a time stays behind the one before it."""
    printed = [_comparable(event.time) for event in events]
    turn = any(time.startswith("12-") for time in printed) and any(time.startswith("01-") for time in printed)
    times, latest = [], ""
    for time in printed:
        latest = ("13" + time[2:] if turn and time.startswith("01-") else time) or latest
        times.append(latest)
    order = sorted(range(len(events)), key=lambda place: (times[place], place))
    return [events[place] for place in order]


def _comparable(time: str | None) -> str:
    """A time without its year, which not all lines have, and in UTC if it states its zone."""
    if not time:
        return ""
    if zone := _ZONE.search(time):
        try:
            time = (
                datetime.fromisoformat(time[: zone.start()][:19] + zone[0]).astimezone(UTC).isoformat()[:19]
                + (time[19 : zone.start()])
            )
        except ValueError:
            return ""
    return time[5:] if re.match(r"\d{4}-", time) else time


def _explained(first: Event, ordered: Sequence[Event]) -> Event:
    """The event that states the reason of the first one, if the first is only its echo."""
    for echo, reason in explained():
        if echo.search(first.text) and not reason.search(first.text):
            for event in ordered:
                if event is not first and reason.search(event.text) and _may_explain(event, first):
                    return event
    if first.kind == "container_error":
        return next((event for event in ordered if _QUOTED in event.facts), first)
    return first


def _may_explain(reason: Event, echo: Event) -> bool:
    """Whether both are of the same rank, as far as is known; a full disk and a broken GPU concern more than one."""
    if reason.kind in ("disk_full", "gpu_error"):
        return True
    return reason.rank is None or echo.rank is None or reason.rank == echo.rank or role(echo) == "contact"


def _detailed(first: Event, ordered: Sequence[Event]) -> Event:
    """NCCL's own line about a failure whose exception only says that NCCL failed."""
    if not _GENERIC.search(first.text):
        return first
    own = [event for event in ordered if event.rank == first.rank and role(event) in ("detail", "contact", "cause")]
    specific = [event for event in own if event is not first and not _GENERIC.search(event.text)]
    return specific[0] if specific else first


def _alike(left: str, right: str) -> bool:
    return re.sub(r"\d+", "#", left[:120]) == re.sub(r"\d+", "#", right[:120])


def _rank(first: Event, best: Event, ranks: Sequence[int], ordered: Sequence[Event]) -> int | None:
    """The rank of the failure; None if several had the same one, and nothing says which was first."""
    root = next((event.rank for event in ordered if event.facts.get("root")), None)
    if root is not None and (root in ranks or not ranks):
        return root
    if len(ranks) > 1:
        return _clearly_first(best, ordered)
    if best.rank is None and first.rank is None and ranks:
        return ranks[0]
    if best.rank is not None or first.rank is not None:
        return best.rank if best.rank is not None else first.rank
    if role(best) != "cause":
        return None
    roles = [role(event) for event in ordered]
    ends = {
        event.rank
        for place, event in enumerate(ordered)
        if roles[place] == "end" and event.rank is not None and _by_itself(place, ordered, roles)
        and (best.node is None or (event.node == best.node and _echo_of(event, best)))
    }  # fmt: skip
    return ends.pop() if len(ends) == 1 else None


def _clearly_first(best: Event, ordered: Sequence[Event]) -> int | None:
    """The rank that failed more than a second before all others that failed alike; None if there is none."""
    others = [event for event in ordered if event.kind == best.kind and event.rank not in (None, best.rank)]
    gaps = [_seconds_between(event, best) for event in others if _alike(event.text, best.text)]
    clear = all(TOGETHER_S < gap < float("inf") for gap in gaps)
    return best.rank if gaps and clear else None


def _doubt(
    first: Event, best: Event, rank: int | None, ranks: list[int], ordered: Sequence[Event]
) -> tuple[str | None, list[int]]:
    """Why the rank is not sure, and the ranks that it may be."""
    best_role = role(best)
    if best.kind == "nccl_lagging":
        named = [int(part) for part in str(best.facts.get("ranks", "")).split(",") if part]
        return (f"the watchdog names {len(named)} ranks" if len(named) > 1 else None), named
    if best_role in ("watchdog", "contact") and best.kind != "network_error":
        seen = sorted({event.rank for event in ordered if event.rank is not None and role(event) == best_role})
        return "every rank waited for or lost another one; no line says which failed first", seen
    rivals = [
        event
        for event in ordered
        if role(event) == "cause" and event.rank not in (None, best.rank) and event.rank not in ranks
        and _seconds_between(event, best) <= TOGETHER_S and not _echo_of(event, best)
    ]  # fmt: skip
    if rivals and rank is not None and not any(event.facts.get("root") for event in ordered):
        both = sorted({rank, *(event.rank for event in rivals if event.rank is not None)})
        listed = ", ".join(map(str, both[:-1]))
        return f"rank {listed} or {both[-1]}; all within a second", both
    return None, ranks if ranks else [rank] if rank is not None else []


def _seconds_between(first: Event, second: Event) -> float:
    """Infinite if the time of one is not known."""
    times = [_comparable(event.time) for event in (first, second)]
    try:
        a, b = (datetime.fromisoformat(f"2000-{time[:18]}") for time in times)
    except ValueError:
        return float("inf")
    return abs((a - b).total_seconds())


def _echo_of(event: Event, reason: Event) -> bool:
    return any(echo.search(event.text) and why.search(reason.text) for echo, why in explained())


def _places(events: Sequence[Event]) -> dict[int, str]:
    """The node of each rank, from lines that name both."""
    nodes: dict[int, str] = {}
    for event in events:
        if event.node is None:
            continue
        ranks = [event.rank] if event.rank is not None else []
        if tasks := _STEP_OF.search(event.text):
            ranks = [*_numbers(tasks[1])]
        for rank in ranks:
            nodes.setdefault(rank, event.node)
    return nodes


def _numbers(text: str) -> Iterator[int]:
    """The numbers of `0,3-5`, of each range not more than 4,096."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            yield from range(int(first), min(int(last or first), int(first) + 4096) + 1)


def _only_node(ordered: Sequence[Event], rank: int | None, best: Event) -> str | None:
    """The node of the only rank that ended by itself, for a failure whose rank and node are unknown."""
    if rank is not None or best.rank is not None:
        return None
    roles = [role(event) for event in ordered]
    ends = {
        event.node
        for place, event in enumerate(ordered)
        if roles[place] == "end" and event.node and _by_itself(place, ordered, roles)
    }
    return ends.pop() if len(ends) == 1 and best.kind in ("container_error", "file_error", "gpu_error") else None


def refused_by_all(text: str) -> bool:
    """Whether a container tool's message is about the image or the account, which are the same on every node."""
    return _REFUSED.search(text) is not None


def _infrastructure(event: Event, stepped: bool) -> bool | None:
    """Whether a retry on other nodes makes sense; None if unknown."""
    if event.kind == "exception":
        return False
    if event.kind == "container_error" or _QUOTED in event.facts:
        return not refused_by_all(event.text)
    signature = match(event.text)
    applies = event.kind in CONNECTING if signature is None else signature.kind == event.kind
    elsewhere = (signature.elsewhere if signature is not None else None) if applies else False
    if elsewhere is None:
        return None if stepped else True
    return elsewhere if role(event) not in ("watchdog", "end") else None


def _echoes(ordered: Sequence[Event], first: Event, best: Event) -> Iterator[Echo]:
    """What followed, once for each rank and text."""
    seen = set()
    for event in ordered:
        key = (event.rank, event.text)
        if event is first or event is best or key in seen or role(event) == "detail":
            continue
        seen.add(key)
        if len(seen) > MOST_ECHOES:
            return
        yield _echo(event)


def _echo(event: Event) -> Echo:
    return Echo(rank=event.rank, time=event.time, text=event.text)
