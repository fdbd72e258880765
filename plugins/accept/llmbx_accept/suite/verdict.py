"""The verdict on a whole acceptance. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmbx.api import Result, Value

from .item import Item, Outcome, Verdict

NOT_YET = "not checked yet"


class Row(Value, frozen=True):
    """One item with its verdict, as the table has it. `expected_h` and `used_h` are GPU-hours."""

    item: str
    kind: str
    verdict: Verdict
    reason: str
    expected_gpu_hours: float | None
    used_gpu_hours: float | None
    runs: tuple[str, ...]


class Summary(Value, frozen=True):
    """An acceptance as a whole: `accepted` only if each item passed. `exclude` are suspected nodes with the reason."""

    acceptance_id: str
    suite: str
    verdict: str
    rows: tuple[Row, ...]
    exclude: dict[str, str]
    gpu_type: str
    expected_gpu_hours: float | None
    used_gpu_hours: float | None
    mini: bool


def summarize(
    acceptance_id: str,
    suite: str,
    gpu_type: str,
    items: Sequence[Item],
    outcomes: Mapping[str, Outcome],
    results: Mapping[str, Sequence[Result]],
) -> Summary:
    """The summary of what is known so far; an item without an outcome is not checked."""
    rows = tuple(_row(item, outcomes.get(item.key), results.get(item.key, ())) for item in items)
    suspects: dict[str, str] = {}
    for item in items:
        for node, why in outcomes[item.key].suspects.items() if item.key in outcomes else ():
            suspects.setdefault(node, f"{item.key}: {why}")
    verdicts = {row.verdict for row in rows}
    return Summary(
        acceptance_id=acceptance_id,
        suite=suite,
        verdict="not accepted" if "fail" in verdicts else "undecided" if "not checked" in verdicts else "accepted",
        rows=rows,
        exclude=dict(sorted(suspects.items())),
        gpu_type=gpu_type,
        expected_gpu_hours=_sum([item.gpu_hours for item in items]),
        used_gpu_hours=_sum([row.used_gpu_hours for row in rows if row.runs]),
        mini=any(item.spec is not None and item.spec.mini for item in items),
    )


def _row(item: Item, outcome: Outcome | None, results: Sequence[Result]) -> Row:
    used = [0.0 if result.workload.gpu_type == "cpu" else result.gpu_hours for result in results]
    return Row(
        item=item.key,
        kind=item.kind,
        verdict=outcome.verdict if outcome else "not checked",
        reason=outcome.reason if outcome else NOT_YET,
        expected_gpu_hours=item.gpu_hours,
        used_gpu_hours=_sum(used) if used else None,
        runs=outcome.runs if outcome else (),
    )


def _sum(hours: Sequence[float | None]) -> float | None:
    """The sum; None if one of them is unknown."""
    known = [value for value in hours if value is not None]
    return sum(known) if len(known) == len(hours) else None


def exit_code(items: Sequence[Item], outcomes: Mapping[str, Outcome]) -> int:
    """0 if each item passed; else 4 (infrastructure), 1 (a run failed), 3 (a criterion is missed), 5 (no verdict)."""
    codes = {_code(outcomes.get(item.key)) for item in items}
    return next((code for code in (4, 1, 3, 5) if code in codes), 0)


def _code(outcome: Outcome | None) -> int:
    if outcome is not None and outcome.infrastructure:
        return 4
    if outcome is None or outcome.verdict == "not checked":
        return 5
    if outcome.verdict == "pass":
        return 0
    return 1 if any(judged.criterion == "runs" and judged.verdict == "fail" for judged in outcome.judged) else 3
