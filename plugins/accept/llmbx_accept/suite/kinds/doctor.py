"""The items that check what each node has."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from llmbx.api import Column, Result, Table, UsageError, convert_toml, plural

from ...facts.inspect import ask_nodes
from ...facts.judge import Asked, Cell, Inspection
from ..item import Item, Kind, Outcome, Site, Verdict

SHOWN = 5
"""Checks that a reason names before it counts the others."""

HOURS = 1 / 60
"""What asking all nodes takes at most."""


class Doctor(Kind):
    """Checks the facts of each node by the limits of `llmbx doctor --nodes`."""

    def hours(self, item: Item, site: Site) -> tuple[float | None, str]:
        """All nodes are asked at the same time, and compute nothing."""
        return HOURS, "one minute"

    def check(self, item: Item, site: Site) -> Outcome:
        """Ask the nodes. An item without nodes asks this machine, or the allocation that llmbx runs in."""
        gpus = None if site.gpu_type == "cpu" else site.gpus_per_node
        kind = None if site.gpu_type == "cpu" else site.gpu_type
        try:
            asked = ask_nodes(site.workspace, item.nodes, gpu_type=kind, gpus=gpus, request=site.request, say=site.say)
        except UsageError as error:
            return Outcome.not_checked(item, str(error))
        outcome: Outcome = judged(item, asked.inspection).replace(evidence=msgspec.to_builtins(asked))
        return outcome

    def derive(self, item: Item, outcome: Outcome, results: Sequence[Result], site: Site) -> Outcome | None:
        """Judge the answers of the nodes again."""
        if not outcome.evidence:
            return None
        derived: Outcome = judged(item, convert_toml(outcome.evidence, Asked, "evidence").inspection)
        return derived.replace(evidence=outcome.evidence)


def judged(item: Item, inspection: Inspection) -> Outcome:
    """The outcome of an inspection: errors fail it.

    A check that would be an error and was not possible on a node leaves it open, unless the suite says that the check
    is not for this site (`settings = { skip = "ib.rate, imex" }`).
    """
    skipped = {name.strip() for name in str(item.settings.get("skip") or "").split(",")}
    errors = {check.id for check in inspection.checks if check.severity == "error"} - skipped
    bad = [cell for cell in inspection.faults if cell.check in errors]
    suspects = {
        node: _why(node, bad) or inspection.silence(node)
        for node in inspection.isolate
        if node in inspection.silent or _why(node, bad)
    }
    checked = sum(cell.state not in ("not checked", "off") for cell in inspection.cells)
    unknown = dict.fromkeys(cell.check for cell in inspection.cells if cell.state == "not checked")
    unknown_errors = [name for name in unknown if name in errors]
    allowed = item.criteria.suspects or 0
    verdict: Verdict
    if len(suspects) > allowed or (bad and not suspects):
        verdict, reason = "fail", "; ".join(dict.fromkeys([*map(_text, bad), *_silences(inspection)]))
    elif unknown_errors or not checked:
        verdict = "not checked"
        reason = f"{plural(checked, 'checks')} passed, not possible: {_some(unknown_errors)}"
    else:
        verdict, reason = "pass", f"{plural(checked, 'checks')} passed"
    return Outcome.of_suspects(item, verdict, suspects, reason, _table(inspection))


def _why(node: str, bad: list[Cell]) -> str:
    return "; ".join(_text(cell) for cell in bad if cell.node == node)


def _silences(inspection: Inspection) -> list[str]:
    return [f"{node}: {inspection.silence(node)}" for node in inspection.silent]


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _text(cell: Cell) -> str:
    reason = cell.reason or cell.state
    value = "" if not cell.value or cell.value in reason else f" {cell.value}"
    return f"{cell.check}{value}: {reason}"


def _table(inspection: Inspection) -> Table:
    order = {"bad": 0, "drift": 1, "not checked": 2}
    cells = sorted(inspection.cells, key=lambda cell: order.get(cell.state, 3))
    columns = tuple(Column(title=title) for title in ("node", "check", "state", "value", "reason"))
    return Table(
        title="Checks of the nodes",
        columns=columns,
        rows=tuple((cell.node, cell.check, cell.state, cell.value, cell.reason) for cell in cells),
        folded=True,
    )


KIND = Doctor()
