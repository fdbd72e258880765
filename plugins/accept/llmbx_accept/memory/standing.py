"""What is known of each node: its speed, its failures, and whether to leave it out. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

from llmbx.api import Value, plural

from .attendance import Attendance, NodeFailure
from .hardware import Change, changes, is_earlier, of_this_hardware
from .speed import Speed, speeds

LONGEST_CAUSE = 120
"""Characters of a cause in a reason."""


class Standing(Value, frozen=True):
    """One node. Unknown values are None.

    `runs` are those that it took part in, `slower` is by how much its runs take longer than others (a fraction), with
    the 95 % interval `low` to `high`, `failures` those that began on it, and `of_hardware` those that were its fault.
    `reason` says why it is suspected. `slowest` is how often the others waited for it, of the `compared` runs in which
    that is known: the part of a node in a job makes it the slowest, too, so nobody is suspected for it. `changed` says
    when it got other GPUs; what was before does not count.
    """

    node: str
    runs: int
    slower: float | None
    low: float | None
    high: float | None
    failures: int
    of_hardware: int
    last_run: float | None
    last_cause: str | None
    suspect: bool
    reason: str | None
    slowest: int = 0
    compared: int = 0
    changed: str | None = None


def standings(attendances: Sequence[Attendance]) -> list[Standing]:
    """What the runs say of each node: suspects first, then by name."""
    last_change = {change.node: change for change in changes(attendances)}
    attendances = of_this_hardware(attendances)
    runs: dict[str, list[Attendance]] = defaultdict(list)
    failures: dict[str, list[NodeFailure]] = defaultdict(list)
    for witness in attendances:
        for host in witness.hosts:
            runs[host].append(witness)
        for failure in witness.failures:
            failures[failure.host].append(failure)
    speed = speeds(attendances)
    nodes = [
        _standing(node, runs.get(node, []), failures.get(node, []), speed.get(node), last_change.get(node))
        for node in {*runs, *failures}
        if not is_earlier(node)
    ]
    return sorted(nodes, key=lambda standing: (not standing.suspect, _natural(standing.node)))


def _standing(
    node: str,
    runs: Sequence[Attendance],
    failures: Sequence[NodeFailure],
    speed: Speed | None,
    change: Change | None,
) -> Standing:
    broke = [failure for failure in failures if failure.of_hardware]
    reasons = [*_slow(speed), *_broken(broke)]
    return Standing(
        node=node,
        runs=len(runs),
        slower=speed.slower if speed else None,
        low=speed.low if speed else None,
        high=speed.high if speed else None,
        failures=len(failures),
        of_hardware=len(broke),
        last_run=max((witness.created for witness in runs), default=None),
        last_cause=failures[-1].cause if failures else None,
        suspect=bool(reasons),
        reason="; ".join(reasons) or None,
        slowest=sum(witness.slowest == node for witness in runs),
        compared=sum(witness.compared for witness in runs),
        changed=_changed(change) if change else None,
    )


def _changed(change: Change) -> str:
    day = datetime.fromtimestamp(change.created, UTC).date()
    count = len(change.added)
    return f"{day}: {plural(count, 'GPUs')} replaced ({', '.join(change.removed)})"


def _slow(speed: Speed | None) -> list[str]:
    if speed is None or not speed.suspect:
        return []
    reason = (
        f"{plural(speed.runs, 'runs')} with it took {100 * speed.slower:.1f} % longer than runs without it "
        f"({100 * speed.low:.1f} to {100 * speed.high:.1f} %)"
    )
    if speed.together:
        reason += f"; {', '.join(speed.together)} took part in the same runs: `llmbx nodes bisect` tells them apart"
    return [reason]


def _broken(failures: Sequence[NodeFailure]) -> list[str]:
    if not failures:
        return []
    cause = failures[-1].cause[:LONGEST_CAUSE]
    return [f"{plural(len(failures), 'failures')} of its hardware, the last: {cause}"]


def _natural(name: str) -> tuple[str, int, str]:
    """n2 before n10."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return stem, int(digits) if digits else -1, name
