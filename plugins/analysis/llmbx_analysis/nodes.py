"""What the nodes of a run have in common."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Node, Scalar, plural


def shared_facts(nodes: Sequence[Node]) -> dict[str, Scalar]:
    """Combine the facts of a run's nodes: one value if all agree, else each value with its number of nodes or GPUs."""
    facts: dict[str, Scalar] = {}
    for name, member in (("system", "kernel"), ("cpu", "cpu"), ("cores", "cores"), ("numa_binding", "numa")):
        facts[name] = _joined([getattr(node, member) for node in nodes], "nodes")
    gpus = [gpu for node in nodes for gpu in node.gpus]
    for name in dict.fromkeys(name for gpu in gpus for name in gpu):
        facts[name] = _joined([gpu.get(name) for gpu in gpus], "GPUs")
    counts = [len(node.gpus) for node in nodes if node.gpus]
    facts["gpus_seen"] = sum(counts) if counts else None
    return {name: value for name, value in facts.items() if value is not None}


def host_names(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the sorted host names of the nodes."""
    return tuple(sorted({node.host for node in nodes if node.host}))


def _joined(values: Sequence[Scalar], what: str) -> Scalar:
    reported = [value for value in values if value is not None]
    if not reported or len(set(reported)) == 1:
        return reported[0] if reported else None
    counts = {value: reported.count(value) for value in sorted(set(reported), key=str)}
    return ", ".join(f"{value} ({plural(n, what)})" for value, n in counts.items())
