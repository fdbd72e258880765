"""Did each rank compute the same twice, and do data-parallel ranks have the same weights? (`run --verify-compute`)"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmbx.api import (
    Answer,
    Check,
    Evidence,
    Finding,
    NotPossible,
    RunFile,
    RunFolder,
    Value,
    plural,
    settings_of,
    spell_ranks,
)

from ..entry.verify import FOLDER, WEIGHT
from ..settings import VerdictSettings

FIX = "repeat the run without this node, and test its GPU"


class Weights(Value, frozen=True):
    """The sum of those weights of a rank that the same other ranks have."""

    of: str
    ranks: tuple[int, ...]
    sum: str


class Verified(Value, frozen=True):
    """What one rank recorded of its two passes (`llmbx.entry.verify`)."""

    rank: int
    node: str
    reason: str | None
    step: int | None
    names: tuple[str, ...]
    """Names of what differs, the first few."""
    count: int
    """Number of what differs."""
    own_weights: bool
    """Whether its weights changed between the passes."""
    compared: int
    weights: tuple[Weights, ...]


def compute(evidence: Evidence) -> Answer:
    """A rank computed another result at the second time, or has other weights than its peers."""
    if evidence.spec is None or evidence.run_dir is None:
        return None
    if not settings_of(evidence.spec, VerdictSettings).verify_compute:
        return None
    files = RunFolder(path=evidence.run_dir).glob(f"{FOLDER}/rank-*.json")
    records = sorted(filter(None, map(_read, files)), key=lambda record: record.rank)
    reason = next((record.reason for record in records if record.reason), None)
    if reason is None and not records:
        if not evidence.ended_well:
            return NotPossible(reason="the training did not end its last step")
        reason = f"{evidence.spec.plugin} does not repeat a step"
    if reason is not None:
        problem = f"the last step was not computed twice: {reason}"
        return (Finding(rule="verify-compute", problem=problem, fix="leave out --verify-compute", warning=True),)
    return (*_changed(records), *_apart(records), *_absent(records)) or None


def _read(file: RunFile) -> Verified | None:
    """The record of one rank; None if it is not one."""
    try:
        data: Mapping[str, Any] = json.loads(file.read())
        weights = [
            Weights(of=str(part["of"]), ranks=tuple(map(int, part["ranks"])), sum=str(part["sum"]))
            for part in data.get("weights", ())
        ]
        return Verified(
            rank=int(data["rank"]),
            node=str(data["node"]),
            reason=None if data.get("reason") is None else str(data["reason"]),
            step=None if data.get("step") is None else int(data["step"]),
            names=tuple(map(str, data.get("differing", ()))),
            count=sum(int(count) for count in data.get("differ", {}).values()),
            own_weights=bool(data.get("differ", {}).get(WEIGHT)),
            compared=sum(int(count) for count in data.get("compared", {}).values()),
            weights=tuple(weights),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _changed(records: Sequence[Verified]) -> Iterator[Finding]:
    """The ranks whose second pass had another result."""
    wrong = [record for record in records if record.count]
    if not wrong:
        return
    first = wrong[0]
    more = f" and {first.count - 1} others" if first.count > 1 else ""
    what = f"{first.names[0] if first.names else 'a result'}{more}, of {first.compared} compared"
    doubt = "; they exchange what they compute, so that one of them may be wrong" if len(wrong) > 1 else ""
    text = f"{_who(wrong)} computed step {first.step} twice with different results ({what}){doubt}"
    yield _finding(text, wrong)


def _apart(records: Sequence[Verified]) -> Iterator[Finding]:
    """The ranks whose weights are not those of their peers; if they changed between the passes, that says which."""
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[str, Verified]]] = {}
    for record in records:
        for part in record.weights if not record.own_weights else ():
            groups.setdefault((part.of, part.ranks), []).append((part.sum, record))
    for members in groups.values():
        counts = Counter(total for total, _ in members)
        (usual, most), *others = counts.most_common()
        if not others:
            continue
        majority = most > others[0][1]
        odd = [record for total, record in members if not majority or total != usual]
        ranks = ", ".join(str(record.rank) for _, record in members if record not in odd)
        against = f"their peers ({ranks})" if len(odd) > 1 else f"its peers ({ranks})"
        verb = "has" if len(odd) == 1 else "have"
        text = (
            f"{_who(odd)} {verb} other weights than {against}"
            if majority
            else f"{_who(odd)} have different weights, and which of them are wrong is not known"
        )
        yield _finding(text, odd)


def _absent(records: Sequence[Verified]) -> Iterator[Finding]:
    """The ranks without a record, as far as the others name them."""
    named = {rank for record in records for part in record.weights for rank in part.ranks}
    absent = sorted(named - {record.rank for record in records})
    if absent:
        problem = f"{plural(len(absent), 'rank')} did not record the second pass: {spell_ranks(absent)}"
        yield Finding(rule="verify-compute", problem=problem, fix="look at their logs", warning=True)


def _finding(text: str, records: Sequence[Verified]) -> Finding:
    nodes = {record.node for record in records}
    node = nodes.pop() if len(nodes) == 1 else None
    ranks = tuple(record.rank for record in records)
    return Finding(rule="verify-compute", problem=text, fix=FIX, ranks=ranks, node=node)


def _who(records: Sequence[Verified]) -> str:
    """The ranks, by node."""
    nodes: dict[str, list[int]] = {}
    for record in records:
        nodes.setdefault(record.node, []).append(record.rank)
    parts = [f"{spell_ranks(ranks)} on {node}" for node, ranks in nodes.items()]
    return ("rank " if len(records) == 1 else "ranks ") + ", ".join(parts)


CHECKS = (
    Check(
        "verify-compute",
        "With `--verify-compute`, sums of each rank's losses, gradients and weights in two passes of the last step, "
        "and the weights of data-parallel ranks ([how to](how-to/verify-compute.md)).",
        "The same weights and batch gave another result, or data-parallel ranks have other weights: a GPU, its "
        "memory or a transfer flips bits. If nothing was compared, a warning says why.",
        "Leave out the node, and test its GPU.", "invalid", compute, reads_files=True,
    ),
)  # fmt: skip
