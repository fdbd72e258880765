"""The sections on scaling: step time, throughput and parallel efficiency over GPUs, with the failed scales."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Axis, Chart, Column, Point, Rule, Scalar, Section, Series, Table, plural
from llmbx.api.verbs import format_number

from .cells import Cell
from .scaling import Efficiency, Family, Mode, Scale, efficiency, families

MODES: dict[Mode, str] = {
    "weak": "Weak scaling: the global batch size grows with the number of {each}, {per} per {singular}.",
    "strong": "Strong scaling: the global batch size is {samples} at every scale.",
    "mixed": "The global batch size is neither fixed nor proportional to the number of {each}.",
}


def sections(cells: Sequence[Cell]) -> tuple[Section, ...]:
    """One section for each workload, size, dtype and GPU type that was run at several scales."""
    return tuple(section(family, index) for index, family in enumerate(families(cells)))


def section(family: Family, index: int = 0) -> Section:
    """The section on the scaling of one family. Scales without valid data are warnings, table rows and lines."""
    suffix = f"-{index + 1}" if index else ""
    charts = (_efficiency(family, suffix), _throughput(family, suffix), _step_time(family, suffix))
    return Section(
        name=f"scaling{suffix}",
        title=f"Scaling: {family.of}",
        text=(family.sentence, f"{_mode(family)} Efficiency = {family.formula}: {_relative(family)}."),
        warnings=tuple(f"{scale.name} has no valid data ({scale.word}): {scale.why}" for scale in family.unmeasured),
        tables=(_table(family),),
        charts=charts if len(family.best) > 1 else (),
    )


def _mode(family: Family) -> str:
    base, singular = family.base, family.each.removesuffix("s")
    per = format_number(base.samples / base.gpus)
    return MODES[family.mode].format(
        each=family.each, singular=singular, samples=plural(base.samples, "samples"),
        per=f"{per} {'sample' if per == '1' else 'samples'}",
    )  # fmt: skip


def _relative(family: Family) -> str:
    return f"the throughput per {family.each.removesuffix('s')} relative to that at {family.at_base}"


def _efficiency(family: Family, suffix: str) -> Chart:
    efficiencies = [(scale, *efficiency(family.base, scale)) for scale in family.best]
    points = tuple(Point(x=s.gpus, y=value, low=low, high=high, note=s.name) for s, value, low, high in efficiencies)
    last = efficiencies[-1]
    return Chart(
        name=f"efficiency{suffix}",
        title=f"Parallel efficiency over {family.each}",
        x=_axis(family),
        y=Axis(title="efficiency", unit="%", zero=True),
        series=(Series(name="measured", points=_with_band(points)),),
        rules=(Rule(name="ideal 100 %", y=100.0), *_failures(family)),
        summary=f"{family.of}: the efficiency at {plural(last[0].gpus, family.each)} is {last[1]:.1f} %"
        f"{_missing(family)}.",
        formula=family.formula,
    )


def _throughput(family: Family, suffix: str) -> Chart:
    base, best = family.base, family.best
    ideal = tuple(Point(x=g, y=base.rate * g / base.gpus) for g in _ticks(family))
    series = [
        Series(name="measured", points=_with_band([_rate_point(s) for s in best])),
        Series(name="ideal", points=ideal, marks="dashed"),
    ]
    if family.others:
        slower = tuple(_rate_point(s) for s in family.others)
        series.append(Series(name="other configurations", points=slower, marks="points"))
    if family.published:
        series.append(Series(name="published", points=family.published, marks="points"))
    return Chart(
        name=f"scaling{suffix}",
        title=f"Throughput over {family.each}",
        x=_axis(family),
        y=Axis(title="throughput", unit="tokens/s", log=True),
        series=tuple(series),
        rules=_failures(family),
        summary=f"{family.of}: {format_number(base.rate)} tokens/s at {family.at_base}, "
        f"{format_number(best[-1].rate)} at {best[-1].gpus}{_missing(family)}; "
        "the dashed line is ideal scaling from the smallest scale.",
        formula=f"tokens per step / step time; ideal: throughput at {family.at_base} × {family.each} / {base.gpus}",
    )


def _step_time(family: Family, suffix: str) -> Chart:
    base, best = family.base, family.best
    measured = [Point(x=s.gpus, y=s.time.mean, low=s.time.low, high=s.time.high, note=s.name) for s in best]
    ideal = tuple(Point(x=s.gpus, y=s.tokens / base.rate * base.gpus / s.gpus) for s in best)
    return Chart(
        name=f"scaled-step-time{suffix}",
        title=f"Step time over {family.each}",
        x=_axis(family),
        y=Axis(title="step time", unit="s", zero=True),
        series=(
            Series(name="measured", points=tuple(measured)),
            Series(name="ideal", points=ideal, marks="dashed"),
        ),
        rules=_failures(family),
        summary=f"{family.of}: {format_number(base.time.mean)} s at {family.at_base}, "
        f"{format_number(best[-1].time.mean)} s at {best[-1].gpus}{_missing(family)}.",
        formula=f"mean of the measured steps; ideal: tokens per step / (throughput per {family.each.removesuffix('s')} "
        f"at {family.at_base} × {family.each})",
    )


def _axis(family: Family) -> Axis:
    return Axis(title=family.each, unit=family.each, log=True, ticks=_ticks(family))


def _ticks(family: Family) -> tuple[float, ...]:
    gpus = {float(scale.gpus) for scale in family.scales}
    gpus |= {float(scale.gpus) for scale in family.unmeasured}
    return tuple(sorted(gpus | {point.x for point in family.published}))


def _failures(family: Family) -> tuple[Rule, ...]:
    """A line at each scale without any valid data."""
    valid = {scale.gpus for scale in family.scales}
    words = {scale.gpus: scale.word for scale in family.unmeasured if scale.gpus not in valid}
    return tuple(Rule(name=f"{gpus}: {word}", x=float(gpus)) for gpus, word in words.items())


def _missing(family: Family) -> str:
    failures = _failures(family)
    return f" ({', '.join(rule.name for rule in failures)})" if failures else ""


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


def _table(family: Family) -> Table:
    """All configurations by scale, also those without valid data."""
    rows = [(scale.gpus, _row(scale, efficiency(family.base, scale))) for scale in family.scales]
    rows += [
        (scale.gpus, (scale.name, scale.word, scale.gpus, scale.samples, *([None] * 8))) for scale in family.unmeasured
    ]
    return Table(
        title="Scales",
        columns=_columns(family),
        rows=tuple(row for _, row in sorted(rows, key=lambda pair: pair[0])),
    )


def _row(scale: Scale, efficiency: Efficiency) -> tuple[Scalar, ...]:
    time = scale.time
    low, high = (None, None) if time.method == "exact" else (max(0.0, time.low), time.high)
    rates = (scale.rate, scale.rate / scale.gpus)
    return (scale.name, scale.word, scale.gpus, scale.samples, time.mean, low, high, *rates, *efficiency)


def _columns(family: Family) -> tuple[Column, ...]:
    each, singular = family.each, family.each.removesuffix("s")
    return (
        Column(title="configuration"),
        Column(title="verdict"),
        Column(title=each, unit=each),
        Column(title="global batch", unit="samples"),
        Column(title="step time", unit="s", formula="mean of the measured steps; with repeats, of their means"),
        Column(title="from", unit="s", formula="lower end of the 95 % interval of the step time"),
        Column(title="to", unit="s", formula="upper end of the 95 % interval of the step time"),
        Column(title="throughput", unit="tokens/s", formula="tokens per step / step time"),
        Column(title=f"per {singular}", unit=f"tokens/s/{singular}", formula=f"throughput / {each}"),
        Column(title="efficiency", unit="%", formula=f"{family.formula}; {_relative(family)}"),
        Column(title="from", unit="%", formula="lower end of the 95 % interval of the efficiency"),
        Column(title="to", unit="%", formula="upper end of the 95 % interval of the efficiency"),
    )
