"""Judge what the runs of a workload measured by the criteria of its item. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llmbx.api import Reference, Result, mean_of, plural

from .item import Criteria, Item, Judged, Outcome, Verdict

SHARED = ("plugin", "workload", "size", "dtype", "gpu_type", "recipe")
"""What the scales of one workload have in common."""

INFRASTRUCTURE = ("node_fail", "preempted", "lost")

Rates = Mapping[tuple[str, ...], Mapping[int, float | None]]
"""Tokens/s of a GPU by family and number of GPUs, of all scales of the plan; None: not measured."""


def judged_outcome(item: Item, results: Sequence[Result], row: Reference | None, rates: Rates) -> Outcome:
    """The outcome of a workload's runs; `row` is the published figure of its configuration, if there is one.

    An item passes if all of its runs are valid and it reaches every criterion.
    """
    judged = [_runs(item, results)]
    if judged[0].verdict == "pass":
        judged += [judge(item, results, row, rates) for asked, judge in _asked(item.criteria) if asked]
    verdict = _worst([single.verdict for single in judged])
    reasons = [f"{single.criterion}: {single.reason}" for single in judged if single.verdict == verdict]
    return Outcome(
        key=item.key,
        verdict=verdict,
        reason=judged[0].reason if verdict == "pass" else "; ".join(reasons),
        judged=tuple(judged),
        suspects=_suspects(results),
        runs=tuple(result.run_id for result in results),
        infrastructure=any(result.status in INFRASTRUCTURE for result in results),
    )


def rates_of(results: Mapping[str, Sequence[Result]], items: Sequence[Item]) -> Rates:
    """Tokens/s of a GPU by family and scale, for all workloads of the plan."""
    rates: dict[tuple[str, ...], dict[int, float | None]] = {}
    for item in items:
        if item.spec is not None and item.kind == "workload":
            rates.setdefault(family(item), {})[item.spec.gpus] = _rate(results.get(item.key, ()))
    return rates


def _rate(results: Sequence[Result]) -> float | None:
    rates = [result.tokens_per_s_per_gpu for result in results if result.data_valid]
    measured = [rate for rate in rates if rate is not None]
    return mean_of(measured) if measured and len(measured) == len(results) else None


def family(item: Item) -> tuple[str, ...]:
    """What an item shares with the same work at other scales."""
    assert item.spec is not None
    return tuple(str(getattr(item.spec, name)) for name in SHARED)


Judge = Callable[[Item, Sequence[Result], Reference | None, Rates], Judged]


def _asked(criteria: Criteria) -> tuple[tuple[bool, Judge], ...]:
    return (
        (criteria.published is not None, _published),
        (criteria.predicted, _predicted),
        (criteria.efficiency is not None, _efficiency),
    )


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    return "fail" if "fail" in verdicts else "not checked" if "not checked" in verdicts else "pass"


def _runs(item: Item, results: Sequence[Result]) -> Judged:
    """Whether every repeat ended with valid data."""
    bad = next(
        (result for result in results if result.status != "completed" or not result.data_valid),
        None,
    )
    valid = sum(result.status == "completed" and result.data_valid for result in results)
    verdict: Verdict = "fail" if bad is not None else "pass" if len(results) == item.repeats else "not checked"
    if bad is not None:
        why = bad.cause or bad.status
    elif verdict == "not checked":
        why = f"{len(results)} of {item.repeats} runs done"
    else:
        step_s = mean_of([result.step_time_s.mean for result in results if result.step_time_s.mean is not None])
        mini = ", a mini" if item.spec is not None and item.spec.mini else ""
        why = "completed, valid" if step_s is None else f"completed, valid, {step_s:.4g} s per step{mini}"
    return Judged(
        criterion="runs",
        verdict=verdict,
        measured=float(valid),
        limit=float(item.repeats),
        unit="runs",
        reason=why,
    )


def _published(item: Item, results: Sequence[Result], row: Reference | None, rates: Rates) -> Judged:
    limit, name = item.criteria.published, "published"
    step_s = _step_s(results)
    if why := _not_comparable(results):
        return _open(name, why, limit)
    if row is None or row.step_time_s is None:
        return _open(name, "no published figure for exactly this configuration", limit)
    if step_s is None:
        return _open(name, "no step time", limit)
    return _reached(name, row.step_time_s / step_s, limit, f"of {row.step_time_s:g} s per step ({row.source})")


def _predicted(item: Item, results: Sequence[Result], row: Reference | None, rates: Rates) -> Judged:
    name, step_s, expected = "predicted", _step_s(results), results[0].expected
    high = expected.step_time_s.high
    if item.spec is not None and item.spec.mini:
        return _open(name, "a mini on CPUs has no prediction", high, "s")
    if why := _unstable(results):
        return _open(name, why, high, "s")
    if high is None or step_s is None:
        return _open(name, expected.unknown_because or "no prediction", high, "s")
    verdict: Verdict = "pass" if step_s <= high else "fail"
    why = f"{step_s:.4g} s per step, expected {expected.step_time_s.text()} s"
    return Judged(criterion=name, verdict=verdict, measured=step_s, limit=high, unit="s", reason=why)


def _efficiency(item: Item, results: Sequence[Result], row: Reference | None, rates: Rates) -> Judged:
    limit, name = item.criteria.efficiency, "efficiency"
    assert item.spec is not None
    by_scale = rates.get(family(item), {})
    fewest = min(by_scale, default=item.spec.gpus)
    own, base = by_scale.get(item.spec.gpus), by_scale.get(fewest)
    if own is None or base is None:
        return _open(
            name,
            f"no throughput on {plural(item.spec.gpus if own is None else fewest, 'GPUs')}",
            limit,
        )
    if why := _unstable(results):
        return _open(name, why, limit)
    if fewest == item.spec.gpus:
        return Judged(
            criterion=name,
            verdict="pass",
            measured=1.0,
            limit=limit,
            reason="the fewest GPUs of the suite",
        )
    if item.spec.mini:
        return _open(name, "minis on shared CPUs do not show the scaling of a cluster", limit)
    return _reached(name, own / base, limit, f"of the throughput of a GPU on {fewest}")


def _step_s(results: Sequence[Result]) -> float | None:
    means = [result.step_time_s.mean for result in results if result.step_time_s.mean is not None]
    return mean_of(means) if len(means) == len(results) else None


def _not_comparable(results: Sequence[Result]) -> str | None:
    for result in results:
        if not result.comparable:
            return "; ".join(result.not_comparable_because) or "not comparable"
    return _unstable(results)


def _unstable(results: Sequence[Result]) -> str | None:
    for result in results:
        if result.stability.verdict != "stable":
            return f"the step times are {result.stability.verdict or 'not judged'}: {result.stability.reason or ''}"
    return None


def _open(name: str, reason: str, limit: float | None, unit: str = "fraction") -> Judged:
    return Judged(criterion=name, verdict="not checked", limit=limit, unit=unit, reason=reason)


def _reached(name: str, fraction: float, limit: float | None, what: str) -> Judged:
    verdict: Verdict = "pass" if limit is not None and fraction >= limit else "fail"
    why = f"{100 * fraction:.1f} % {what}"
    return Judged(criterion=name, verdict=verdict, measured=fraction, limit=limit, unit="fraction", reason=why)


def _suspects(results: Sequence[Result]) -> dict[str, str]:
    """The nodes on which a run failed by the hardware or the scheduler, with the cause."""
    return {
        result.cause_node: result.cause or result.status
        for result in results
        if result.cause_node and result.status in INFRASTRUCTURE
    }
