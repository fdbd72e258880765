"""The items that measure the parts of each node, and pairs and groups of nodes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from llmbx.api import Column, Result, Table, UsageError, convert_toml, plural

from ...speed.judge import Measured, SpeedReport, SpeedRow
from ...speed.measure import cost, measure_speed
from ..item import Item, Kind, Outcome, Site, Verdict

BUDGET_S = 30.0
ACROSS = ("pair", "tree")
"""Begin the names of what is measured between nodes."""


class Speed(Kind):
    """Measures GEMMs, copies and collectives: of the kind `speed` all, of the kind `pairs` what is between nodes."""

    def hours(self, item: Item, site: Site) -> tuple[float | None, str]:
        """The budget of the measurement; all nodes measure at the same time."""
        return cost(site.node_count, _budget_s(item), site.gpus_per_node).minutes / 60, "budget of the measurement"

    def check(self, item: Item, site: Site) -> Outcome:
        """Measure, and name the nodes that are slow."""
        if item.kind == "pairs" and site.node_count < 2:
            return Outcome.not_checked(item, "one node has no pairs")
        assert item.spec is not None
        if (measured := _measured_before(item, site)) is not None:
            return _with_evidence(item, measured)
        request = site.request.replace(
            workload=item.spec.workload,
            plugin=item.spec.plugin,
            size=item.spec.size,
            dtype=item.spec.dtype,
            gpus=item.spec.gpus,
        )
        try:
            measured = measure_speed(site.workspace, request, item.nodes, budget_s=_budget_s(item), say=site.say)
        except UsageError as error:
            return Outcome.not_checked(item, str(error))
        return _with_evidence(item, measured)

    def derive(self, item: Item, outcome: Outcome, results: Sequence[Result], site: Site) -> Outcome | None:
        """Judge the measurements of the ranks again."""
        if not outcome.evidence:
            return None
        derived: Outcome = judged(item, convert_toml(outcome.evidence, Measured, "evidence").report)
        return derived.replace(evidence=outcome.evidence)


def _with_evidence(item: Item, measured: Measured) -> Outcome:
    outcome: Outcome = judged(item, measured.report).replace(evidence=msgspec.to_builtins(measured))
    return outcome


def _measured_before(item: Item, site: Site) -> Measured | None:
    """What an item of the same acceptance measured on the same nodes, in the same environment, for as long."""
    for other in site.items:
        outcome = site.outcomes.get(other.key)
        same = (other.nodes, other.spec, other.settings) == (item.nodes, item.spec, item.settings)
        if outcome and outcome.evidence and same and other.key != item.key and other.kind in ("speed", "pairs"):
            measured: Measured = convert_toml(outcome.evidence, Measured, "evidence")
            return measured
    return None


def judged(item: Item, report: SpeedReport) -> Outcome:
    """The outcome of a measurement: slow nodes fail it; what could not be measured or judged leaves it open."""
    rows = [row for row in report.rows if item.kind != "pairs" or row.measure.startswith(ACROSS)]
    slow = {row.node: _why(row.node, rows) for row in rows if row.slow}
    compared = sum(row.slow is not None for row in rows)
    allowed = item.criteria.suspects or 0
    verdict: Verdict
    if len(slow) > allowed:
        verdict, reason = "fail", "; ".join(f"{node}: {why}" for node, why in slow.items())
    elif report.exit_code == 5 or not compared:
        missing = "; ".join(f"{name}: {why}" for name, why in report.not_measured.items())
        verdict, reason = "not checked", missing or "nothing to compare the measurements with"
    else:
        verdict, reason = "pass", f"{plural(compared, 'measurements')} compared, none slow"
    return Outcome.of_suspects(item, verdict, slow, reason, _table(rows))


def _budget_s(item: Item) -> float:
    return float(item.settings.get("budget_s") or BUDGET_S)


def _why(node: str, rows: list[SpeedRow]) -> str:
    slow = [row for row in rows if row.node == node and row.slow and row.slower is not None]
    return ", ".join(f"{row.measure} {100 * (row.slower or 0):.1f} % slower" for row in slow)


def _table(rows: list[SpeedRow]) -> Table:
    columns = tuple(
        Column(title=title) for title in ("node", "measurement", "value", "expected", "expected from", "slow", "reason")
    )
    lines = tuple(
        (
            row.node,
            row.measure,
            f"{row.value:.4g} {row.unit}",
            None if row.expected is None else f"{row.expected:.4g} {row.unit}",
            row.expected_from,
            None if row.slow is None else "yes" if row.slow else "no",
            row.reason,
        )
        for row in rows
    )
    return Table(title="Measurements", columns=columns, rows=lines, folded=True)


KIND = Speed()
