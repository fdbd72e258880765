"""Judge the facts of all nodes together: what the probe found on each, and what differs between them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Literal

from llmbx.api import Value

from .checks import Check
from .node import probe

State = Literal["ok", "bad", "drift", "not checked", "off"]
STATES: dict[str, State] = {"ok": "ok", "bad": "bad", "not checked": "not checked", "off": "off"}


class NodeAnswer(Value, frozen=True):
    """What the probe printed on a node; `error` is why it printed nothing."""

    node: str
    facts: dict[str, Any] = {}
    unread: dict[str, str] = {}
    error: str | None = None


class Cell(Value, frozen=True):
    """One check of one node. `alone` is false for a difference of which it is unknown whose side is right."""

    node: str
    check: str
    state: State
    value: str | None = None
    reason: str | None = None
    alone: bool = True


class Inspection(Value, frozen=True):
    """All checks of all nodes: a cell for each, in the order of nodes, then checks."""

    nodes: tuple[str, ...]
    checks: tuple[Check, ...]
    cells: tuple[Cell, ...]

    @property
    def faults(self) -> tuple[Cell, ...]:
        """The cells that are bad or differ from the other nodes."""
        return tuple(cell for cell in self.cells if cell.state in ("bad", "drift"))

    @property
    def silent(self) -> tuple[str, ...]:
        """Nodes of which nothing was checked."""
        heard = {cell.node for cell in self.cells if cell.state not in ("not checked", "off")}
        return tuple(node for node in self.nodes if node not in heard)

    def silence(self, node: str) -> str:
        """Why nothing of a node was checked."""
        return next((cell.reason for cell in self.cells if cell.node == node and cell.reason), "it did not answer")

    @property
    def isolate(self) -> tuple[str, ...]:
        """The nodes to leave out: those with an error whose action is to isolate or reset them, and silent ones."""
        checks = {check.id: check for check in self.checks}
        bad = {
            cell.node
            for cell in self.faults
            if checks[cell.check].severity == "error" and checks[cell.check].action != "watch" and cell.alone
        }
        return tuple(node for node in self.nodes if node in bad or node in self.silent)

    @property
    def exit_code(self) -> int:
        """4 if a node has an error or did not answer, else 0."""
        errors = {check.id for check in self.checks if check.severity == "error"}
        return 4 if self.silent or any(cell.check in errors for cell in self.faults) else 0


class Asked(Value, frozen=True):
    """What the nodes answered, and what they were asked for: all that an inspection follows from."""

    answers: tuple[NodeAnswer, ...]
    checks: tuple[Check, ...]
    expected: dict[str, Any]

    @property
    def inspection(self) -> Inspection:
        """The checks of all nodes."""
        return inspect(self.answers, self.checks, self.expected)


def inspect(answers: Sequence[NodeAnswer], checks: Sequence[Check], expected: Mapping[str, Any]) -> Inspection:
    """Judge what the nodes answered by the checks. `expected` is that of the probe's configuration."""
    rules = [_rule(check) for check in checks]
    rows = {answer.node: _row(answer, checks, rules, dict(expected)) for answer in answers}
    for place, check in enumerate(checks):
        if check.drift and len(answers) > 1:
            values = {answer.node: answer.facts[check.fact] for answer in answers if check.fact in answer.facts}
            for node, reason, alone in _differing(values, check.within):
                if rows[node][place].state == "ok":
                    rows[node][place] = rows[node][place].replace(state="drift", reason=reason, alone=alone)
    cells = tuple(cell for row in rows.values() for cell in row)
    return Inspection(nodes=tuple(rows), checks=tuple(checks), cells=cells)


def _rule(check: Check) -> dict[str, Any]:
    import msgspec

    table: dict[str, Any] = msgspec.to_builtins(check)
    return {key: value for key, value in table.items() if value is not None}


def _row(
    answer: NodeAnswer, checks: Sequence[Check], rules: list[dict[str, Any]], expected: dict[str, Any]
) -> list[Cell]:
    if answer.error is not None:
        return [Cell(node=answer.node, check=check.id, state="not checked", reason=answer.error) for check in checks]
    verdicts = probe.judge(answer.facts, answer.unread, rules, expected)
    return [
        Cell(node=answer.node, check=check.id, state=STATES[state], value=value or None, reason=reason or None)
        for check, (state, value, reason) in zip(checks, verdicts, strict=True)
    ]


def _differing(values: Mapping[str, Any], within: float | None) -> list[tuple[str, str, bool]]:
    """The nodes whose value is not that of most nodes, each with the reason and whether most nodes agree."""
    if within is not None:
        middle = median(values.values()) if values else 0.0
        off = [node for node, value in values.items() if abs(value - middle) > within * middle]
        majority = len(off) < len(values) / 2
        return [(node, f"{values[node]:g}, the median of the nodes is {middle:g}", majority) for node in off]
    texts = {node: probe.alike(value) for node, value in values.items()}
    counts = Counter(texts.values())
    if len(counts) < 2:
        return []
    usual, count = counts.most_common(1)[0]
    majority = count > len(texts) / 2
    if majority:
        reason = f"{count} of {len(texts)} nodes have {usual}"
        return [(node, f"{text}; {reason}", True) for node, text in texts.items() if text != usual]
    listed = ", ".join(f"{number} have {text}" for text, number in counts.most_common(3))
    return [(node, f"the nodes differ: {listed}", False) for node in texts]
