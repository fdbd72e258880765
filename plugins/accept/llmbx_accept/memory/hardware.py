"""Changes of the hardware of nodes, by the UUIDs of their GPUs: what was known before is of other hardware."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Value

from .attendance import Attendance

BEFORE = " before "
"""Joins a node with the run in which it had other GPUs first, to the name of the node as it was before."""


class Change(Value, frozen=True):
    """A run in which a node had other GPUs than in the one before: its start (epoch seconds), and the UUIDs."""

    node: str
    run: str
    created: float
    removed: tuple[str, ...]
    added: tuple[str, ...]


def changes(attendances: Sequence[Attendance]) -> list[Change]:
    """The changes in the order of the runs. A run that saw fewer GPUs of a node than before says nothing."""
    last: dict[str, frozenset[str]] = {}
    seen = []
    for witness in attendances:
        for node, uuids in witness.devices.items():
            before, now = last.get(node, frozenset()), frozenset(uuids)
            if not before or len(now) > len(before):
                last[node] = now
            elif len(now) == len(before) and now != before:
                removed, added = tuple(sorted(before - now)), tuple(sorted(now - before))
                seen.append(Change(node=node, run=witness.run, created=witness.created, removed=removed, added=added))
                last[node] = now
    return seen


def of_this_hardware(attendances: Sequence[Attendance]) -> list[Attendance]:
    """The same runs, in which nodes that have other GPUs now are nodes of another name."""
    latest = {change.node: change for change in changes(attendances)}
    return [_renamed(witness, latest) for witness in attendances]


def is_earlier(node: str) -> bool:
    """Whether this is the name of a node as it was before a change."""
    return BEFORE in node


def _renamed(witness: Attendance, latest: dict[str, Change]) -> Attendance:
    names = {node: f"{node}{BEFORE}{change.run}" for node, change in latest.items() if witness.created < change.created}
    if not names:
        return witness
    return witness.replace(
        hosts=tuple(names.get(host, host) for host in witness.hosts),
        failures=tuple(failure.replace(host=names.get(failure.host, failure.host)) for failure in witness.failures),
        slowest=names.get(witness.slowest, witness.slowest) if witness.slowest else None,
    )
