"""The report of an acceptance: one page that says what to do, with the details below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llmbx.api import Column, Fact, Result, Section, Table, plural

from .item import Item, Judged, Outcome
from .verdict import Summary

MINI = (
    "The workloads are minis, small models with the same layer types. They show that the software works, "
    "not how fast the machine is."
)


def sections(
    summary: Summary,
    items: Sequence[Item],
    outcomes: Mapping[str, Outcome],
    results: Mapping[str, Sequence[Result]],
) -> tuple[Section, ...]:
    """The sections of the page: verdict, items, nodes to exclude; then each item, and what the runs ran on."""
    details = [_details(number, item, outcomes.get(item.key)) for number, item in enumerate(items, 1)]
    return (_overview(summary), *details, _environment(results))


def sentence(summary: Summary) -> str:
    """The verdict in one sentence."""
    counts = [
        (plural(sum(row.verdict == verdict for row in summary.rows), "items"), verdict)
        for verdict in ("pass", "fail", "not checked")
    ]
    parts = [f"{number} {WORDS[verdict]}" for number, verdict in counts if not number.startswith("0 ")]
    end = f"; exclude {', '.join(summary.exclude)}" if summary.exclude else ""
    mini = " (minis only, which show no speed)" if summary.mini else ""
    return f"{summary.verdict}{mini}: {', '.join(parts)}{end}"


WORDS = {"pass": "passed", "fail": "failed", "not checked": "not checked"}


def _overview(summary: Summary) -> Section:
    tables = [
        Table(
            title="Items",
            columns=tuple(Column(title=title) for title in ("item", "verdict", "reason")),
            rows=tuple((row.item, row.verdict, row.reason) for row in summary.rows),
        )
    ]
    if summary.exclude:
        tables.append(
            Table(
                title="Nodes to exclude",
                columns=(Column(title="node"), Column(title="reason")),
                rows=tuple(summary.exclude.items()),
            )
        )
    return Section(
        name="verdict",
        title="Verdict",
        text=(f"{sentence(summary)}.", f"Acceptance {summary.acceptance_id}."),
        warnings=(MINI,) if summary.mini else (),
        facts=(
            Fact(name="verdict", value=summary.verdict),
            Fact(name="suite", value=summary.suite),
            Fact(name="GPU type", value=summary.gpu_type),
            Fact(name="GPU-hours used", value=summary.used_gpu_hours, unit="h"),
            Fact(name="GPU-hours expected", value=summary.expected_gpu_hours, unit="h"),
        ),
        tables=tuple(tables),
    )


def _details(number: int, item: Item, outcome: Outcome | None) -> Section:
    rows = tuple(_criterion(judged) for judged in outcome.judged) if outcome else ()
    columns = tuple(Column(title=title) for title in ("criterion", "verdict", "measured", "limit", "reason"))
    judged = (Table(title="Criteria", columns=columns, rows=rows),) if rows else ()
    return Section(
        name=f"item-{number}",
        title=f"{number}. {item.key}",
        text=_said(outcome) if outcome else (),
        facts=(Fact(name="verdict", value=outcome.verdict if outcome else "not checked"),),
        tables=(*judged, *(outcome.tables if outcome else ())),
    )


def _said(outcome: Outcome) -> tuple[str, ...]:
    """The reason of an outcome, and its runs."""
    runs = f"Runs: {', '.join(outcome.runs)}." if outcome.runs else ""
    return tuple(text for text in (outcome.reason, runs) if text)


def _criterion(judged: Judged) -> tuple[str | None, ...]:
    return (
        judged.criterion,
        judged.verdict,
        _figure(judged.measured, judged.unit),
        _figure(judged.limit, judged.unit),
        judged.reason,
    )


def _figure(value: float | None, unit: str) -> str | None:
    if value is None:
        return None
    return f"{100 * value:.1f} %" if unit == "fraction" else f"{value:.4g} {unit}".rstrip()


def _environment(results: Mapping[str, Sequence[Result]]) -> Section:
    measured = [result for several in results.values() for result in several]
    rows = tuple((name, value) for name, value in sorted(set(_facts(measured))))
    table = Table(
        title="Software and images",
        columns=(Column(title="what"), Column(title="value")),
        rows=rows,
    )
    return Section(name="environment", title="Environment of the runs", tables=(table,) if rows else ())


def _facts(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    for result in results:
        yield from result.versions.items()
        if result.image.ref:
            yield "image", f"{result.image.ref} {result.image.digest or ''}".strip()
