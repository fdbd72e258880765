"""The report's section on what the machine and the ranks did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import DecodeError, ValidationError, json

from llmbx.api import (
    Axis,
    Chart,
    Column,
    Fact,
    Point,
    RunFolder,
    Section,
    Series,
    Table,
    convert,
)
from llmbx.api.verbs import Observed

from .samples import Floats, Samples, events_of, read_samples
from .steps import read_steps

RESULT = "result.json"
MOST_SERIES = 8
"""Curves of one chart: GPUs beyond them are only in the table."""
MOST_POINTS = 240
MOST_RANKS = 64
"""Ranks of the chart of waits: the slowest and the fastest are shown if there are more."""


def sections(run_dir: Path) -> list[Section]:
    """Return the section of a run; none if nothing was recorded."""
    samples = read_samples(run_dir)
    seen = observed(run_dir)
    facts = tuple(_facts(seen))
    tables = tuple(table for table in (_gpus(seen), _missing(samples), _events(samples)) if table)
    charts = tuple(chart for chart in (*_curves(samples), _waits(run_dir)) if chart)
    if not (samples or charts):
        return []
    return [Section(name="telemetry", title="Telemetry", facts=facts, tables=tables, charts=charts)]


def observed(run_dir: Path) -> Observed:
    """Return what the result says."""
    try:
        result = json.decode(RunFolder(path=run_dir).read(RESULT))
        members = {name: result[name] for name in ("nodes", "hardware", "stragglers")}
        return convert(members, Observed)
    except (OSError, DecodeError, ValidationError, KeyError, TypeError):
        return Observed()


def _facts(seen: Observed) -> Iterator[Fact]:
    hardware, ranks = seen.hardware, seen.stragglers
    if hardware.clock_mhz is not None:
        formula = "mean over the window's samples and the GPUs"
        yield Fact(name="clock", value=hardware.clock_mhz, unit="MHz", formula=formula)
        mfu = None if hardware.mfu is None else 100 * hardware.mfu
        yield Fact(
            name="MFU at this clock",
            value=mfu,
            unit="%",
            formula=f"MFU × {hardware.peak_clock_mhz or '?'} MHz / {hardware.clock_mhz:.0f} MHz",
            note=hardware.because,
        )
    for name, value, unit in (
        ("power of a GPU", hardware.power_w, "W"),
        ("energy", hardware.joules_per_step, "J/step"),
        ("tokens per joule", hardware.tokens_per_joule, "tokens/J"),
        ("clock lowered by the power limit", _percent(hardware.slowed_by_power), "%"),
        ("clock lowered by the temperature", _percent(hardware.slowed_by_heat), "%"),
    ):
        if value is not None:
            yield Fact(name=name, value=value, unit=unit, formula="by the counters of the driver")
    if ranks.steps:
        formula = f"median of {ranks.ranks} ranks over {ranks.steps} steps"
        yield Fact(name="wait for other ranks", value=ranks.wait_s, unit="s", formula=formula)
        rank = None if ranks.slowest_rank is None else str(ranks.slowest_rank)
        note = "the ranks work evenly" if rank is None else f"on {ranks.slowest_node}"
        yield Fact(name="slowest rank", value=rank, note=note)
    if ranks.lost_s_per_step is not None:
        yield Fact(
            name="time that it costs",
            value=ranks.lost_s_per_step,
            unit="s/step",
            formula="how much longer the median of the others waits",
        )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _gpus(seen: Observed) -> Table | None:
    rows = [
        (
            node.node,
            str(gpu.index),
            gpu.uuid,
            ", ".join(map(str, gpu.ranks)) or None,
            gpu.clock_mhz,
            gpu.power_w,
            gpu.temperature_c,
            _percent(gpu.slowed_by_power),
            _percent(gpu.slowed_by_heat),
        )
        for node in seen.nodes
        for gpu in node.gpus
    ]
    columns = (
        Column(title="node"),
        Column(title="GPU"),
        Column(title="UUID"),
        Column(title="ranks"),
        Column(title="clock", unit="MHz"),
        Column(title="power", unit="W"),
        Column(title="temperature", unit="°C"),
        Column(title="lowered by power", unit="% of the time"),
        Column(title="lowered by heat", unit="% of the time"),
    )
    return Table(title="GPUs", columns=columns, rows=tuple(rows), folded=True) if rows else None


def _missing(samples: Sequence[Samples]) -> Table | None:
    reasons: dict[tuple[str, str], None] = {}
    for each in samples:
        for name, reason in each.missing.items():
            thing, dot, measure = name.partition(".")
            generic = f"gpu.{measure}" if dot and thing.startswith("gpu") else name
            reasons.setdefault((generic, reason))
    if not reasons:
        return None
    columns = (Column(title="what"), Column(title="why"))
    return Table(title="Not collected", columns=columns, rows=tuple(reasons), folded=True)


def _events(samples: Sequence[Samples]) -> Table | None:
    events = events_of(samples)
    if not events:
        return None
    begin = samples[0].time[0]
    rows = tuple((node, event.thing, event.time - begin, event.text) for node, event in events)
    columns = (
        Column(title="node"),
        Column(title="object"),
        Column(title="time", unit="s"),
        Column(title="what"),
    )
    return Table(title="Events", columns=columns, rows=rows)


def _curves(samples: Sequence[Samples]) -> Iterator[Chart]:
    for name, title, unit, scale in (
        ("clock.sm", "Clock of the GPUs", "MHz", 1.0),
        ("power", "Power of the GPUs", "W", 1e-3),
        ("temperature", "Temperature of the GPUs", "°C", 1.0),
    ):
        series = [
            Series(
                name=f"{each.node} {gpu}",
                points=_points(each.time, scale * each.get(f"{gpu}.{name}")),
            )
            for each in samples
            for gpu in each.things("gpu")
        ]
        series = [curve for curve in series if curve.points][:MOST_SERIES]
        if series:
            yield Chart(
                name=f"telemetry-{name.replace('.', '-')}",
                title=title,
                x=Axis(title="time since the start", unit="s"),
                y=Axis(title=title, unit=unit),
                series=tuple(series),
                summary=f"{title} over the run, for the first {len(series)} GPUs.",
            )


def _points(time: Floats, values: Floats) -> tuple[Point, ...]:
    chosen = np.flatnonzero(~np.isnan(values))
    chosen = chosen[:: max(1, -(-len(chosen) // MOST_POINTS))]
    return tuple(Point(x=float(time[n] - time[0]), y=float(values[n])) for n in chosen)


def _waits(run_dir: Path) -> Chart | None:
    """Medians of each rank's time before the ranks meet, and of its wait there."""
    ranks = read_steps(run_dir)
    rows = [
        (
            rank.rank,
            float(np.nanmedian(rank.columns["before"])),
            float(np.nanmedian(rank.columns["wait"])),
        )
        for rank in ranks
        if not np.isnan(rank.columns["wait"]).all()
    ]
    if len(rows) < 2:
        return None
    if len(rows) > MOST_RANKS:
        rows = sorted(rows, key=lambda row: row[2])
        rows = sorted(rows[: MOST_RANKS // 2] + rows[-MOST_RANKS // 2 :])
    before = tuple(Point(x=rank, y=seconds) for rank, seconds, _ in rows)
    wait = tuple(Point(x=rank, y=seconds) for rank, _, seconds in rows)
    return Chart(
        name="telemetry-waits",
        title="Waiting by rank",
        x=Axis(title="rank", unit="number"),
        y=Axis(title="median of a step", unit="s", zero=True),
        series=(
            Series(name="before the ranks meet", points=before, marks="points"),
            Series(name="wait there", points=wait, marks="points"),
        ),
        summary="The rank that waits least is the one for which the others wait.",
    )
