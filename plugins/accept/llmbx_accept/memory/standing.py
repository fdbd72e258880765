"""What is known of each node: its speed, its failures, and whether to leave it out. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from llmbx.api import Value, plural

from .attendance import Attendance, NodeFailure
from .speed import Speed, speeds

LONGEST_CAUSE = 120
"""Characters of a cause in a reason."""


class Standing(Value, frozen=True):
    """One node. Unknown values are None.

    `runs` are those that it took part in, `slower` is by how much its runs take longer than others (a fraction), with
    the 95 % interval `low` to `high`, `failures` those that began on it, and `of_hardware` those that were its fault.
    `reason` says why it is suspected.
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


def standings(attendances: Sequence[Attendance]) -> list[Standing]:
    """What the runs say of each node: suspects first, then by name."""
    runs: dict[str, list[Attendance]] = defaultdict(list)
    failures: dict[str, list[NodeFailure]] = defaultdict(list)
    for witness in attendances:
        for host in witness.hosts:
            runs[host].append(witness)
        for failure in witness.failures:
            failures[failure.host].append(failure)
    speed = speeds(attendances)
    nodes = [
        _standing(node, runs.get(node, []), failures.get(node, []), speed.get(node)) for node in {*runs, *failures}
    ]
    return sorted(nodes, key=lambda standing: (not standing.suspect, _natural(standing.node)))


def _standing(node: str, runs: Sequence[Attendance], failures: Sequence[NodeFailure], speed: Speed | None) -> Standing:
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
    )


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
