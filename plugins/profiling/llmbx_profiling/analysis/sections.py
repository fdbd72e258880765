"""Convert an analysis to a report section, for `llmbx nsys --html` and the report of a profiled run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmbx.api import Axis, Chart, Column, Fact, Point, Scalar, Section, Series, Table, mean_of, plural
from llmbx_verdict.statistics import series as step_series

from .model import Analysis, Step

TIMES = ("duration", "busy", "idle", "compute", "communication", "overlapped", "exposed")
"""Times of a step on a GPU; a step on a CPU has only the first."""

FOLD_ROWS = 24
"""Tables with more rows are folded."""

SHARES = (
    ("computing", lambda step: step.compute_s),
    ("exposed communication", lambda step: step.exposed_s),
    ("idle", lambda step: step.idle_s),
)
UNION = "length of the union of kernel intervals, so concurrent kernels count once"

Read = Callable[[Step], float | None]


def section(analysis: Analysis) -> Section:
    """Return the section of an analysis: charts of the step times, and tables of ranks, kernels, gaps and ranges."""
    return Section(
        name="nsys",
        title="Step time breakdown (Nsight Systems)",
        text=(*_sentences(analysis), "Profiled steps are not a benchmark result: the profiler slows them down."),
        warnings=analysis.notes,
        facts=_facts(analysis),
        charts=tuple(chart for chart in (_by_step(analysis), _by_rank(analysis)) if chart is not None),
        tables=tuple(table for table in _tables(analysis) if table.rows),
    )


def _sentences(analysis: Analysis) -> list[str]:
    ranks, files = len(analysis.ranks), len(analysis.files)
    sentences = [f"{plural(ranks, 'ranks')} in {plural(files, 'files')}."]
    if analysis.stragglers is not None:
        s = analysis.stragglers
        unmatched = f"; {s.unmatched} could not be matched" if s.unmatched else ""
        sentences.append(f"{s.matched} collectives were matched across ranks{unmatched}.")
    return sentences


def _has_gpus(analysis: Analysis) -> bool:
    return any(rank.kernels for rank in analysis.ranks)


def _facts(analysis: Analysis) -> tuple[Fact, ...]:
    no_gpu = "the profiles contain no GPU activity"
    share, top, s = analysis.exposed_share, analysis.ceiling, analysis.stragglers
    if not _has_gpus(analysis):
        return (Fact(name="exposed communication", value=None, unit="%", note=no_gpu),)
    none = None if s else "no collectives could be matched across ranks"
    return (
        Fact(name="exposed communication", value=None if share is None else 100 * share, unit="%",
               formula="communication without concurrent computation / step time, over all ranks",
               note=no_gpu if share is None else None),
        Fact(name="step", value=_ms(top.step_s) if top else None, unit="ms",
               formula="mean over steps of the slowest rank's time", note=None if top else no_gpu),
        Fact(name="step without exposed communication", value=_ms(top.without_s) if top else None, unit="ms",
               formula="the same, minus exposed communication", note=None if top else no_gpu),
        Fact(name="upper bound on speed-up", value=top.speedup if top else None, unit="x",
               formula="step / step without exposed communication", note=None if top else no_gpu),
        Fact(name="transfer", value=_ms(s.transfer_s) if s else None, unit="ms", note=none,
               formula="sum over collectives of the shortest time that any rank spent in them"),
        Fact(name="waiting for stragglers", value=_ms(s.wait_s) if s else None, unit="ms", note=none,
               formula="sum over ranks of the time in collectives beyond the shortest"),
    )  # fmt: skip


def _by_step(analysis: Analysis) -> Chart | None:
    """Return the chart of the time shares by step, as means over ranks."""
    steps: dict[int, list[Step]] = {}
    for step in analysis.steps:
        if step.step is not None:
            steps.setdefault(step.step, []).append(step)
    return _chart("by-step", "Time breakdown by step", Axis(title="step", unit="number"), sorted(steps.items()),
                  "mean over ranks")  # fmt: skip


def _by_rank(analysis: Analysis) -> Chart | None:
    """Return the chart of the time shares by rank, as means over steps."""
    ranks: dict[int, list[Step]] = {}
    for step in analysis.steps:
        if step.rank is not None:
            ranks.setdefault(step.rank, []).append(step)
    if len(ranks) < 2:
        return None
    return _chart("by-rank", "Time breakdown by rank", Axis(title="rank", unit="number"), sorted(ranks.items()),
                  "mean over steps")  # fmt: skip


def _chart(name: str, title: str, x: Axis, groups: Sequence[tuple[int, list[Step]]], how: str) -> Chart | None:
    if not groups:
        return None
    shares = [*SHARES, ("all", lambda step: step.duration_s)]
    series = tuple(
        Series(
            name=words,
            points=step_series.thinned([Point(x=key, y=_ms(mean_of(map(read, steps)))) for key, steps in groups]),
        )
        for words, read in shares
    )
    drawn = tuple(curve for curve in series if any(point.y is not None for point in curve.points))
    gpus = len(drawn) > 1
    return Chart(
        name=name,
        title=title,
        x=x,
        y=Axis(title="time", unit="ms", zero=True),
        series=drawn,
        summary=f"Step time by GPU activity, {how}." if gpus else f"Step time on the CPU, {how}.",
        formula=f"{how}, {UNION}" if gpus else f"{how} of the lengths of the step ranges",
    )


def _tables(analysis: Analysis) -> list[Table]:
    times = TIMES if _has_gpus(analysis) else TIMES[:1]
    seconds = tuple(Column(title=name, unit="ms", formula=UNION) for name in times)
    return [
        _table("ranks (sums over steps)", (_RANK, Column(title="steps", unit="steps"),
               Column(title="kernels", unit="kernels"), *seconds),
               [(r.label, r.steps, r.kernels, *(_ms(getattr(r, f"{t}_s")) for t in times)) for r in analysis.ranks]),
        _table("kernels by time", _KERNELS, [(k.name, k.kind, k.calls, _ms(k.total_s), _ms(k.mean_s), _ms(k.max_s),
                                              100 * k.share) for k in analysis.top_kernels]),
        _table("exposed communication", _COLLECTIVES,
               [(c.name, c.operation or "", c.calls, _ms(c.exposed_s), _ms(c.overlapped_s), _ms(c.total_s),
                 _ms(c.mean_s)) for c in analysis.top_collectives]),
        _table("stragglers (last rank to enter collectives)", _STRAGGLERS,
               [(r.label, r.last, 100 * r.last_share, _ms(r.causes_s), _ms(r.waits_s))
                for r in (analysis.stragglers.ranks if analysis.stragglers else ())]),
        _table("longest idle gaps", (_RANK, Column(title="step"), Column(title="start in the step", unit="ms"),
               Column(title="duration", unit="ms")),
               [(g.label, _number(g.step), _ms(g.start_s), _ms(g.duration_s)) for g in analysis.gaps]),
        _table("ranges", _RANGES, [(f"{r.domain}:{r.text}" if r.domain else r.text, r.calls, _ms(r.total_s),
                                    _ms(r.mean_s), _ms(r.min_s), _ms(r.max_s)) for r in analysis.ranges]),
        _table("every step", (Column(title="step"), _RANK, *seconds),
               [(_number(s.step), s.label, *(_ms(getattr(s, f"{t}_s")) for t in times)) for s in analysis.steps]),
    ]  # fmt: skip


_RANK = Column(title="rank")
_CALLS = Column(title="calls", unit="calls")
_KERNELS = (Column(title="kernel"), Column(title="kind"), _CALLS, Column(title="total", unit="ms"),
            Column(title="mean", unit="ms"), Column(title="longest", unit="ms"),
            Column(title="share", unit="%", formula="of the total kernel time"))  # fmt: skip
_COLLECTIVES = (Column(title="kernel"), Column(title="operation"), _CALLS,
                Column(title="exposed", unit="ms", formula="time without concurrent computation on the same rank"),
                Column(title="overlapped", unit="ms"), Column(title="total", unit="ms"),
                Column(title="mean", unit="ms"))  # fmt: skip
_STRAGGLERS = (_RANK, Column(title="last", unit="times"),
               Column(title="share", unit="%", formula="of all matched collectives"),
               Column(title="causes wait", unit="ms", formula="total time that other ranks waited for this rank"),
               Column(title="waits", unit="ms"))  # fmt: skip
_RANGES = (Column(title="range"), _CALLS, Column(title="total", unit="ms"), Column(title="mean", unit="ms"),
           Column(title="shortest", unit="ms"), Column(title="longest", unit="ms"))  # fmt: skip


def _table(title: str, columns: tuple[Column, ...], rows: Sequence[tuple[Scalar, ...]]) -> Table:
    return Table(title=title, columns=columns, rows=tuple(rows), folded=len(rows) > FOLD_ROWS)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _number(step: int | None) -> str:
    return "whole capture" if step is None else str(step)
