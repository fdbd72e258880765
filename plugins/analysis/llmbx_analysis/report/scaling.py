"""Scales of one workload: throughput, parallel efficiency, and whether the scaling is weak or strong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from llmbx.api import Fact, Point, Reference, Value, plural
from llmbx_verdict.statistics import intervals

from ..compare.measured import step_time
from ..formatting import figure as format_figure
from .cells import Cell
from .verdicts import verdict

Mode = Literal["weak", "strong", "mixed"]
"""Weak: the batch grows with the number of GPUs. Strong: the batch is fixed. Mixed: neither."""

Efficiency = tuple[float, float | None, float | None]
"""An efficiency in percent with the ends of its interval, if it has one."""


class Scale(Value, frozen=True):
    """One measured configuration of a family: step time in seconds, samples and tokens per step."""

    gpus: int
    time: intervals.Interval
    tokens: int
    name: str
    samples: int = 0
    word: str = ""

    @property
    def rate(self) -> float:
        """Throughput in tokens/s."""
        return self.tokens / self.time.mean


class Unmeasured(Value, frozen=True):
    """A configuration of a family without valid data: the word of its verdict, and why."""

    gpus: int
    name: str
    word: str
    why: str
    samples: int


class Family(Value, frozen=True):
    """The scales of one workload, size, dtype and GPU type, the smallest first; the first one is the base.

    `each` is the plural of what is counted, `published` are the throughputs of published rows of similar scales.
    """

    of: str
    each: str
    scales: tuple[Scale, ...]
    unmeasured: tuple[Unmeasured, ...] = ()
    published: tuple[Point, ...] = ()

    @property
    def base(self) -> Scale:
        """The scale that the efficiency is relative to: the fastest configuration on the fewest GPUs."""
        return self.scales[0]

    @property
    def at_base(self) -> str:
        """The number of GPUs of the base."""
        return plural(self.base.gpus, self.each)

    @property
    def best(self) -> tuple[Scale, ...]:
        """The fastest configuration of each scale."""
        best: dict[int, Scale] = {}
        for scale in self.scales:
            if scale.gpus not in best or scale.rate > best[scale.gpus].rate:
                best[scale.gpus] = scale
        return tuple(best.values())

    @property
    def others(self) -> tuple[Scale, ...]:
        """The configurations that are not the fastest of their scale."""
        best = self.best
        return tuple(scale for scale in self.scales if scale not in best)

    @property
    def mode(self) -> Mode:
        """Whether the scaling is weak or strong, by the batch of the measured configurations."""
        base = self.base
        if all(scale.tokens == base.tokens for scale in self.scales):
            return "strong"
        if all(scale.tokens * base.gpus == base.tokens * scale.gpus for scale in self.scales):
            return "weak"
        return "mixed"

    @property
    def largest(self) -> Fact | None:
        """The efficiency at the largest measured scale; None if there is only one."""
        if len(self.best) < 2:
            return None
        last = self.best[-1]
        value, low, high = efficiency(self.base, last)
        return Fact(
            name=f"efficiency at {plural(last.gpus, self.each)}", value=value, unit="%", low=low, high=high,
            formula=self.formula, of="95 % interval, from both step times" if low is not None else None,
            note=f"{self.mode} scaling, relative to {self.at_base}",
        )  # fmt: skip

    @property
    def formula(self) -> str:
        """The formula of the efficiency. It is the same for all modes, written as is usual for each of them."""
        if self.mode == "weak":
            return f"step time at {self.at_base} / step time"
        if self.mode == "strong":
            return f"step time at {self.at_base} × {self.base.gpus} / (step time × {self.each})"
        return f"(throughput / {self.each}) / (throughput / {self.each} at {self.at_base})"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        efficiency = self.largest
        if efficiency is None:
            return f"{self.of}: only one scale has valid data, so the efficiency is unknown."
        value = format_figure(efficiency).replace("(", "(95 % interval ").replace(")", " %)")
        kind = "Scaling" if self.mode == "mixed" else f"{self.mode.capitalize()} scaling"
        where = plural(self.best[-1].gpus, self.each)
        return f"{kind} of {self.of}: the efficiency at {where} is {value}, relative to {self.at_base}."


def families(cells: Sequence[Cell]) -> tuple[Family, ...]:
    """The families that have several scales, at least one of them with valid data."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        spec = cell.spec
        groups.setdefault((spec.workload, spec.size, spec.dtype, spec.gpu_type), []).append(cell)
    return tuple(
        _family(group, f"{workload} {size} {dtype} on {gpu_type}")
        for (workload, size, dtype, gpu_type), group in groups.items()
        if len({cell.spec.gpus for cell in group}) > 1 and any(cell.valid_runs for cell in group)
    )


def efficiency(base: Scale, scale: Scale) -> Efficiency:
    """Throughput per GPU relative to the base scale in percent, and its interval from both step times."""
    work = 100 * (scale.tokens / scale.gpus) / (base.tokens / base.gpus)
    if scale is base:
        return 100.0, None, None
    slower = intervals.change(base.time, scale.time)
    has_interval = slower.low != slower.high
    return work / (1 + slower.fraction), *(
        (work / (1 + slower.high), work / (1 + slower.low)) if has_interval else (None, None)
    )


def _family(cells: Sequence[Cell], of: str) -> Family:
    scales = sorted((_scale(cell) for cell in cells if cell.valid_runs), key=lambda s: (s.gpus, s.time.mean / s.tokens))
    without = sorted((_unmeasured(cell) for cell in cells if not cell.valid_runs), key=lambda u: u.gpus)
    each = "ranks" if cells[0].spec.gpu_type == "cpu" else "GPUs"
    measured = [cell for cell in cells if cell.valid_runs]
    return Family(of=of, each=each, scales=tuple(scales), unmeasured=tuple(without),
                  published=tuple(_published(measured)))  # fmt: skip


def _scale(cell: Cell) -> Scale:
    time = step_time([run.measured for run in cell.valid_runs], intervals.LEVEL)
    return Scale(gpus=cell.spec.gpus, time=time, tokens=cell.spec.tokens_per_step, name=cell.name,
                 samples=cell.spec.global_batch_size, word=verdict(cell).word)  # fmt: skip


def _unmeasured(cell: Cell) -> Unmeasured:
    judged = verdict(cell)
    return Unmeasured(gpus=cell.spec.gpus, name=cell.name, word=judged.word, why=judged.text,
                      samples=cell.spec.global_batch_size)  # fmt: skip


def _published(cells: Sequence[Cell]) -> list[Point]:
    """Published rows of the family, from half the smallest to twice the largest measured scale."""
    scales = [cell.spec.gpus for cell in cells]
    rows = {_key(row): row for cell in cells for row in cell.published}
    points = []
    for row in sorted(rows.values(), key=lambda r: r.gpus):
        rate = _rate(row, cells)
        if rate is not None and min(scales) / 2 <= row.gpus <= max(scales) * 2:
            dispute = f"; disputed: {row.disputed}" if row.disputed else ""
            points.append(Point(x=row.gpus, y=rate, note=f"{row.source}{dispute}"))
    return points


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
