"""The sections on scaling: throughput over GPUs with ideal and published values, and parallel efficiency."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Axis, Chart, Column, Point, Reference, Rule, Section, Series, Table, Value
from llmbx.api.verbs import formatting, intervals

from ..compare.measured import step_time
from .cells import Cell


class Scale(Value, frozen=True):
    """One scale of a family (same workload, size, dtype and GPU type): step time in seconds and tokens per step."""

    gpus: int
    time: intervals.Interval
    tokens: int
    name: str

    @property
    def rate(self) -> float:
        """Throughput in tokens/s."""
        return self.tokens / self.time.mean


def sections(cells: Sequence[Cell]) -> tuple[Section, ...]:
    """One section for each workload, size, dtype and GPU type that was measured at several scales."""
    families: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        spec = cell.spec
        if cell.valid_runs:
            families.setdefault((spec.workload, spec.size, spec.dtype, spec.gpu_type), []).append(cell)
    return tuple(
        section(group, f"{workload} {size} {dtype} on {gpu_type}", index)
        for index, ((workload, size, dtype, gpu_type), group) in enumerate(families.items())
        if len({cell.spec.gpus for cell in group}) > 1
    )


def section(cells: Sequence[Cell], of: str, index: int = 0) -> Section:
    """The section on the scaling of one family."""
    scales = sorted((_scale(cell) for cell in cells), key=lambda s: (s.gpus, s.time.mean / s.tokens))
    suffix = f"-{index + 1}" if index else ""
    each = "ranks" if cells[0].spec.gpu_type == "cpu" else "GPUs"
    published = _published(cells)
    charts = (_throughput(scales, published, of, each, suffix), _efficiency(scales, published, of, each, suffix))
    return Section(
        name=f"scaling{suffix}",
        title=f"Scaling: {of}",
        text=(f"Efficiency: throughput per {each[:-1]} relative to that at {formatting.count(scales[0].gpus, each)}.",),
        tables=(_table(scales, each),),
        charts=charts,
    )  # fmt: skip


def efficiency(base: Scale, scale: Scale) -> tuple[float, float | None, float | None]:
    """Throughput per GPU relative to the base scale in percent, and its interval from both step times."""
    work = 100 * (scale.tokens / scale.gpus) / (base.tokens / base.gpus)
    if scale is base:
        return 100.0, None, None
    slower = intervals.change(base.time, scale.time)
    known = slower.low != slower.high
    return work / (1 + slower.fraction), *(
        (work / (1 + slower.high), work / (1 + slower.low)) if known else (None, None)
    )


def _scale(cell: Cell) -> Scale:
    time = step_time([run.measured for run in cell.valid_runs], intervals.LEVEL)
    return Scale(gpus=cell.spec.gpus, time=time, tokens=cell.spec.tokens_per_step, name=cell.name)


def _throughput(scales: Sequence[Scale], published: Sequence[Point], of: str, each: str, suffix: str) -> Chart:
    base, best, others = scales[0], *_best(scales)
    ideal = tuple(Point(x=g, y=base.rate * g / base.gpus) for g in _ticks(scales, published))
    series = [
        Series(name="measured", points=_with_band([_rate_point(s) for s in best])),
        Series(name="ideal", points=ideal, marks="dashed"),
    ]
    if others:
        slower = tuple(_rate_point(s) for s in others)
        series.append(Series(name="other configurations", points=slower, marks="points"))
    if published:
        series.append(Series(name="published", points=tuple(published), marks="points"))
    return Chart(
        name=f"scaling{suffix}",
        title=f"Throughput over {each}",
        x=Axis(title=each, unit=each, log=True, ticks=_ticks(scales, published)),
        y=Axis(title="throughput", unit="tokens/s", log=True),
        series=tuple(series),
        summary=f"{of}: {formatting.number(scales[0].rate)} tokens/s at {formatting.count(base.gpus, each)}, "
        f"{formatting.number(scales[-1].rate)} at {scales[-1].gpus}; "
        "the dashed line is ideal scaling from the smallest scale.",
        formula="tokens per step / step time; ideal: "
        f"throughput at {formatting.count(base.gpus, each)} × {each} / {base.gpus}",
    )


def _efficiency(scales: Sequence[Scale], published: Sequence[Point], of: str, each: str, suffix: str) -> Chart:
    base = scales[0]
    found = [(s, *efficiency(base, s)) for s in _best(scales)[0]]
    points = tuple(Point(x=s.gpus, y=value, low=low, high=high) for s, value, low, high in found)
    last = found[-1]
    return Chart(
        name=f"efficiency{suffix}",
        title=f"Efficiency over {each}",
        x=Axis(title=each, unit=each, log=True, ticks=_ticks(scales, published)),
        y=Axis(title="efficiency", unit="%"),
        series=(Series(name="measured", points=_with_band(points)),),
        rules=(Rule(name="ideal 100 %", y=100.0),),
        summary=f"{of}: the efficiency at {formatting.count(last[0].gpus, each)} is {last[1]:.1f} %.",
        formula=f"(throughput / {each}) / (throughput / {each} at {formatting.count(base.gpus, each)})",
    )


def _best(scales: Sequence[Scale]) -> tuple[list[Scale], list[Scale]]:
    """The fastest configuration of each scale, and all others."""
    best: dict[int, Scale] = {}
    for scale in scales:
        if scale.gpus not in best or scale.rate > best[scale.gpus].rate:
            best[scale.gpus] = scale
    chosen = list(best.values())
    return chosen, [scale for scale in scales if scale not in chosen]


def _rate_point(s: Scale) -> Point:
    high = s.tokens / s.time.low if s.time.low > 0 else None
    return Point(x=s.gpus, y=s.rate, low=s.tokens / s.time.high, high=high, note=s.name)


def _with_band(points: Sequence[Point]) -> tuple[Point, ...]:
    """Give points without an interval an empty one, so that the band covers all points."""
    if not any(point.low is not None and point.high is not None for point in points):
        return tuple(points)
    return tuple(
        point if point.low is not None and point.high is not None else point.replace(low=point.y, high=point.y)
        for point in points
    )


def _published(cells: Sequence[Cell]) -> list[Point]:
    """Published rows of the family, from half the smallest to twice the largest measured scale."""
    scales = [cell.spec.gpus for cell in cells]
    rows = {_key(row): row for cell in cells for row in cell.published}
    found = []
    for row in sorted(rows.values(), key=lambda r: r.gpus):
        rate = _rate(row, cells)
        if rate is not None and min(scales) / 2 <= row.gpus <= max(scales) * 2:
            dispute = f"; disputed: {row.disputed}" if row.disputed else ""
            found.append(Point(x=row.gpus, y=rate, note=f"{row.source}{dispute}"))
    return found


def _key(row: Reference) -> tuple[object, ...]:
    return row.source, row.gpus, row.step_time_s, row.tokens_per_s


def _rate(row: Reference, cells: Sequence[Cell]) -> float | None:
    """Throughput of a published row in tokens/s: as printed, else from its step time and batch size."""
    if row.tokens_per_s is not None:
        return row.tokens_per_s
    length = row.sequence_length or cells[0].spec.model.sequence_length
    if row.step_time_s and row.global_batch_size:
        return length * row.global_batch_size / row.step_time_s
    return None


def _ticks(scales: Sequence[Scale], published: Sequence[Point]) -> tuple[float, ...]:
    return tuple(sorted({float(s.gpus) for s in scales} | {point.x for point in published}))


def _table(scales: Sequence[Scale], each: str) -> Table:
    base = scales[0]
    rows = []
    for scale in scales:
        share, low, high = efficiency(base, scale)
        rows.append((scale.name, scale.gpus, scale.time.mean, scale.rate, scale.rate / scale.gpus, share, low, high))
    return Table(
        title="Scales",
        columns=(
            Column(title="configuration"),
            Column(title=each, unit=each),
            Column(title="step time", unit="s"),
            Column(title="throughput", unit="tokens/s", formula="tokens per step / step time"),
            Column(title=f"per {each[:-1]}", unit=f"tokens/s/{each[:-1]}", formula=f"throughput / {each}"),
            Column(
                title="efficiency",
                unit="%",
                formula=f"throughput per {each[:-1]} / throughput per {each[:-1]} "
                f"at {formatting.count(base.gpus, each)}",
            ),
            Column(title="from", unit="%", formula="lower end of the 95 % interval of the efficiency"),
            Column(title="to", unit="%", formula="upper end of the 95 % interval of the efficiency"),
        ),
        rows=tuple(rows),
    )
