"""The report's section on where the time of the steps went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llmbx.api import Axis, Chart, Column, Point, Section, Series, Table

from .causes import SlowRun
from .clocks import Clocks, Floats
from .counters import Counters
from .evidence import Evidence, load
from .explain import ITSELF, explained

MOST_COLUMNS, MOST_ROWS = 60, 32
"""Cells of the picture of waits: of more steps and ranks, several share one."""
MOST_SERIES, MOST_POINTS = 8, 240
LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Shares of a step from which a cell of the picture of waits is darker. The first shows the ranks that wait least."""
MEASURES = (
    ("gpu", "clock.sm", "Clock of the GPU", "MHz", 1.0, "level"),
    ("gpu", "power", "Power of the GPU", "W", 1e-3, "level"),
    ("rank", "run_delay", "Ready, but not running", "s", 1e-6, "increase"),
    ("rank", "ran", "Processor time", "s", 1e-6, "increase"),
    ("rank", "major_faults", "Major faults", "faults", 1.0, "increase"),
    ("rank", "io.read_bytes", "Read from disks", "MB", 1e-6, "increase"),
)
"""What is shown under the step times: object, measure, title, unit, scale, and how a step's value is read."""


def sections(run_dir: Path) -> list[Section]:
    """Return the section of a run; none without step clocks."""
    run = load(run_dir)
    if run.clocks is None or run.counters is None:
        return []
    slow = explained(run, None, ITSELF, None)
    charts = (_waterfall(slow), *_waits(run.clocks), _steps(run), *_samples(run.clocks, run.counters))
    table = _causes(slow)
    return [
        Section(
            name="lost-time",
            title="Where the time went",
            text=(_summary(slow),),
            tables=(table,) if table else (),
            charts=charts,
        )
    ]


def _summary(slow: SlowRun) -> str:
    lost = slow.lost_s_per_step or 0.0
    share = 100 * lost / slow.step_s if slow.step_s else 0.0
    return f"A step takes {slow.step_s:.4g} s; against {slow.against}, {lost:.3g} s of it are lost ({share:.1f} %)."


def _causes(slow: SlowRun) -> Table | None:
    if not slow.causes:
        return None
    columns = (
        Column(title="cause"),
        Column(title="rank"),
        Column(title="node"),
        Column(title="share of the lost time", unit="%"),
        Column(title="certainty"),
        Column(title="evidence"),
        Column(title="do"),
    )
    rows = tuple(
        (
            cause.id,
            "all" if cause.rank is None else str(cause.rank),
            cause.node or "all",
            None if cause.share is None else 100 * cause.share,
            cause.certainty,
            "; ".join(cause.evidence),
            cause.do,
        )
        for cause in slow.causes
    )
    return Table(title="Causes", columns=columns, rows=rows)


def _waterfall(slow: SlowRun) -> Chart:
    """The step without what was lost, what each cause adds, and the step that was measured."""
    assert slow.step_s is not None
    lost = slow.lost_s_per_step or 0.0
    named = [(_name(cause.id, cause.rank), (cause.share or 0.0) * lost) for cause in slow.causes[:MOST_SERIES]]
    more = lost - sum(seconds for _, seconds in named)
    bars = [("without what is lost", slow.step_s - lost), *named, ("unexplained", max(0.0, more))]
    series, base = [], 0.0
    for place, (name, seconds) in enumerate(bars):
        series.append(_bar(name, place, base, base + seconds))
        base += seconds
    series.append(_bar("as measured", len(bars), 0.0, slow.step_s))
    return Chart(
        name="step-budget",
        title="Time budget of a step",
        x=Axis(title="from left to right", unit="number", ticks=tuple(range(len(bars) + 1))),
        y=Axis(title="time of a step", unit="s", zero=True),
        series=tuple(series),
        summary=f"A mean step of {slow.step_s:.4g} s, and what each cause adds to it.",
        formula="what a step would take without each cause: the longest rank, and the communication",
    )


def _name(cause: str, rank: int | None) -> str:
    return cause if rank is None else f"{cause}, rank {rank}"


def _bar(name: str, place: int, low: float, high: float) -> Series:
    point = Point(x=place - 0.4, until=place + 0.4, y=high, low=low, high=high)
    return Series(name=name, points=(point,), marks="bars")


def _waits(clocks: Clocks) -> Iterator[Chart]:
    """Waits of ranks (rows) in steps (columns): the rank that is light where the others are dark is late."""
    if len(clocks.ranks) < 2:
        return
    waits = clocks.phases["wait"] - clocks.shared
    rows = np.array_split(np.arange(len(clocks.ranks)), min(MOST_ROWS, len(clocks.ranks)))
    columns = np.array_split(np.arange(len(clocks.step)), min(MOST_COLUMNS, len(clocks.step)))
    cells: list[list[Point]] = [[] for _ in LEVELS]
    for places in rows:
        for steps in columns:
            seconds = float(waits[np.ix_(places, steps)].mean())
            level = int(np.searchsorted(LEVELS, seconds / clocks.step_s, side="right")) - 1
            cells[max(0, level)].append(_cell(clocks, places, steps, seconds))
    ends = [*LEVELS[1:], None]
    series = [
        Series(name=_level(first, last), points=tuple(points), marks="cells")
        for first, last, points in zip(LEVELS, ends, cells, strict=True)
    ]
    yield Chart(
        name="waits-by-rank",
        title="Waiting by rank and step",
        x=Axis(title="step", unit="number"),
        y=Axis(title="rank", unit="number"),
        series=tuple(series),
        summary="How long each rank waits for later ones. One that is light where the others are dark is late.",
    )


def _level(first: float, last: float | None) -> str:
    share = f"{100 * first:.0f} % of a step"
    return f"{share} and more" if last is None else f"{100 * first:.0f} to {100 * last:.0f} % of a step"


def _cell(clocks: Clocks, places: NDArray[np.intp], steps: NDArray[np.intp], seconds: float) -> Point:
    first, last = int(places[0]), int(places[-1])
    return Point(
        x=float(clocks.step[steps[0]]) - 0.5,
        until=float(clocks.step[steps[-1]]) + 0.5,
        y=float(clocks.ranks[first]),
        low=clocks.ranks[first] - 0.5,
        high=clocks.ranks[last] + 0.5,
        note=f"waits {seconds:.3g} s",
    )


def _steps(run: Evidence) -> Chart:
    assert run.clocks is not None
    return Chart(
        name="periods",
        title="Time of each step",
        x=Axis(title="step", unit="number"),
        y=Axis(title="from start to start", unit="s", zero=True),
        series=(Series(name="step", points=_points(run.clocks, run.clocks.period)),),
        summary="The time from the start of each step to that of the next, for the samples below.",
    )


def _samples(clocks: Clocks, counters: Counters) -> Iterator[Chart]:
    """What was sampled, over the same steps: of the ranks for which it differs most from the others."""
    for kind, measure, title, unit, scale, how in MEASURES:
        values = _values(counters, kind, measure, how) * scale
        if np.isnan(values).all() or not np.nan_to_num(values).any():
            continue
        rows = _extreme(values)
        series = [Series(name=f"rank {clocks.ranks[row]}", points=_points(clocks, values[row])) for row in rows]
        yield Chart(
            name=f"samples-{measure.replace('.', '-').replace('_', '-')}",
            title=title,
            x=Axis(title="step", unit="number"),
            y=Axis(title=title, unit=unit, zero=how == "increase"),
            series=tuple(each for each in series if each.points),
            summary=f"{title} in each step.",
        )


def _values(counters: Counters, kind: str, measure: str, how: str) -> Floats:
    if kind == "gpu":
        return counters.level_of_gpu(measure) if how == "level" else counters.of_gpu(measure)
    return counters.level_of_rank(measure) if how == "level" else counters.of_rank(measure)


def _extreme(values: Floats) -> Sequence[int]:
    known = np.flatnonzero(~np.isnan(values).all(axis=1))
    means = np.nanmean(values[known], axis=1)
    order = np.argsort(-np.abs(means - np.median(means)), kind="stable")
    return sorted(int(known[place]) for place in order[:MOST_SERIES])


def _points(clocks: Clocks, values: Floats) -> tuple[Point, ...]:
    chosen = np.flatnonzero(~np.isnan(values))
    chosen = chosen[:: max(1, -(-len(chosen) // MOST_POINTS))]
    return tuple(Point(x=float(clocks.step[place]), y=float(values[place])) for place in chosen)
