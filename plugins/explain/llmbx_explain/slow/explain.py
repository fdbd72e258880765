"""Explain a run that is slow: apply the rules, and share out what was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from llmbx.api import UsageError
from llmbx.api.verbs import Plugins, path_or_run

from .budget import Part, losses, step_times
from .case import FEW, Case
from .causes import Cause, SlowRun
from .configuration import differences
from .course import course
from .evidence import Evidence, load
from .finding import Finding, Line
from .gpus import clocks
from .loading import loading
from .memory import memory
from .network import network
from .pauses import pauses
from .processors import processors
from .ranks import ranks
from .recorded import noted
from .shared_gpu import shared_gpus
from .table import CAUSES

Rule = Callable[[Case], Iterable[Finding]]
RULES: tuple[Rule, ...] = (
    noted,
    memory,
    processors,
    pauses,
    shared_gpus,
    clocks,
    loading,
    ranks,
    network,
    course,
)
"""Rules in order: time that a rule explains is hidden from the later ones."""
RELATIVE = (shared_gpus, clocks, loading, network)
"""Those that look at the other run themselves, if there is one."""
ITSELF = "its own ranks and steps"
OUTLIER = 1.5
NAMED_SHARE, OF_MANY = 0.005, 0.0005
"""A cause that costs less of a step is not named; less among many ranks, of which the noise is known better."""


def explain_slow(path: Path, against: str | None, plugins: Plugins) -> SlowRun:
    """Explain the run in a folder. Raises `UsageError` for another run that cannot be compared."""
    run = load(path)
    if against in ("reference", "prediction"):
        return explained(run, None, *_expected(run, against, plugins))
    if against is None:
        return explained(run, None, ITSELF, None)
    healthy = load(path_or_run(Path(against)))
    if healthy.step_s is None:
        raise UsageError(f"--against {against}: its steps have no times")
    return explained(run, healthy, healthy.name, healthy.step_s)


def _expected(run: Evidence, against: str, plugins: Plugins) -> tuple[str, float]:
    """The time of a step that was predicted, or published for this work."""
    if against == "prediction":
        seconds = run.result.expected.step_time_s.value if run.result else None
        why = (run.result.expected.unknown_because if run.result else None) or "nothing was predicted for this run"
    else:
        workload = plugins.workload(run.spec.workload, run.spec.plugin) if run.spec else None
        row = run.spec.exact_row(workload) if run.spec and workload else None
        seconds = row.step_time_s if row else None
        why = (run.spec.why_no_figure(workload) if run.spec and workload else None) or "no figure is published"
    if seconds is None:
        raise UsageError(f"--against {against}: {why}")
    return f"the {against}", seconds


def explained(run: Evidence, healthy: Evidence | None, against: str, expected_s: float | None) -> SlowRun:
    """Return the causes of what the run lost, against a time or against what it could have been. Pure."""
    if run.clocks is None or run.counters is None:
        lost = None if run.step_s is None or expected_s is None else max(0.0, run.step_s - expected_s)
        return SlowRun(
            name=run.name, step_s=run.step_s, against=against, lost_s_per_step=lost, missing=dict(run.missing)
        )
    case = Case(run=run, clocks=run.clocks, counters=run.counters, healthy=case_of(healthy))
    findings = found(case)
    parts = [finding.part for finding in findings]
    costs = losses(case.clocks, parts)
    if case.healthy is not None:
        costs = _beyond(case.healthy, findings, costs)
    lost, findings, costs = _whole(case, findings, costs, expected_s)
    causes = _shared_out(case, findings, costs, lost)
    return SlowRun(
        name=run.name,
        step_s=run.step_s,
        against=against,
        lost_s_per_step=lost,
        missing=dict(run.missing),
        causes=causes,
        unexplained=max(0.0, 1.0 - sum(cause.share or 0.0 for cause in causes)),
    )


def case_of(evidence: Evidence | None) -> Case | None:
    """Return a run to compare with; None if it has no step clocks."""
    if evidence is None or evidence.clocks is None or evidence.counters is None:
        return None
    return Case(run=evidence, clocks=evidence.clocks, counters=evidence.counters)


def _beyond(healthy: Case, findings: Sequence[Finding], costs: Sequence[float]) -> list[float]:
    """Return what each finding costs beyond what the same cause costs the other run."""
    theirs = found(healthy, [rule for rule in RULES if rule not in RELATIVE])
    usual: dict[str, float] = {}
    their_costs = losses(healthy.clocks, [finding.part for finding in theirs])
    for finding, cost in zip(theirs, their_costs, strict=True):
        usual[finding.id] = usual.get(finding.id, 0.0) + cost
    beyond = []
    for finding, cost in zip(findings, costs, strict=True):
        same = min(cost, usual.get(finding.id, 0.0))
        usual[finding.id] = usual.get(finding.id, 0.0) - same
        beyond.append(cost - same)
    return beyond


def found(case: Case, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """Return what the rules find, each without what earlier ones found."""
    findings: list[Finding] = []
    for rule in rules:
        new = list(rule(case))
        findings += new
        case = case.without([finding.part for finding in new if not finding.is_everywhere])
    return findings


def _whole(
    case: Case, findings: list[Finding], costs: list[float], expected_s: float | None
) -> tuple[float, list[Finding], list[float]]:
    """The time that a mean step lost; against another run, what is left is by its configuration."""
    if expected_s is None:
        left = step_times(case.clocks, [finding.part for finding in findings])
        usual = float(np.median(left))
        outliers = float(np.where(left > OUTLIER * usual, left - usual, 0.0).mean())
        return sum(costs) + outliers, findings, costs
    lost = max(0.0, case.step_s - expected_s)
    left_s = lost - sum(costs)
    changed = next(differences(case), None)
    if changed is not None and left_s >= case.least_s:
        cause, line = changed
        text = f"step_clocks: a step takes {lost:.3g} s longer, {left_s:.3g} s of it without other causes"
        findings = [*findings, Finding(id=cause, part=Part(), lines=[line, Line("clock", text)])]
        costs = [*costs, left_s]
    return lost, findings, costs


def _shared_out(case: Case, findings: Sequence[Finding], costs: Sequence[float], lost: float) -> tuple[Cause, ...]:
    total = max(lost, sum(costs))
    least_s = (OF_MANY if len(case.clocks.ranks) > FEW else NAMED_SHARE) * case.step_s
    causes = [
        _cause(case, finding, cost / total if finding.is_measured else None, cost / case.step_s)
        for finding, cost in zip(findings, costs, strict=True)
        if not finding.is_measured or (lost > 0 and cost >= least_s)
    ]
    order = ("sure", "likely", "consistent with")
    causes.sort(key=lambda cause: (order.index(cause.certainty) == 2, cause.share is not None, -(cause.share or 0.0)))
    return tuple(causes)


def _cause(case: Case, finding: Finding, share: float | None, share_of_step: float) -> Cause:
    row, advice = finding.row, CAUSES[finding.id]
    return Cause(
        id=finding.id,
        rank=None if row is None else case.clocks.ranks[row],
        node=None if row is None else case.clocks.nodes[row],
        share=share,
        certainty=finding.certainty(share_of_step),
        evidence=tuple(line.text for line in finding.lines),
        confirm=advice.confirm,
        do=advice.do,
    )
