"""Judge the speed of nodes: each measurement by the other nodes', and by what the hardware can do. Pure."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from llmbx.api import GpuType, Value, read_toml
from llmbx_verdict.statistics.outliers import LEAST, Place, places

OTHERS = "the median of the others"

GROUPS = "tree."
"""Measurements of groups of nodes: which of them is slow remains open."""

NOISY = ("disk",)
"""Measurements that differ between healthy nodes by more than others: a share of it must be missing."""
LEAST_NOISY = 0.3


class SpeedRow(Value, frozen=True):
    """One measurement of one node: its slowest rank. Rates are medians; `low` and `high` bound `slower`.

    `slower` is a fraction (0.05: 5 %). `slow` is None if that is not decided: too noisy, or nothing to compare with.
    """

    node: str
    measure: str
    unit: str
    value: float
    low: float | None = None
    high: float | None = None
    expected: float | None = None
    expected_from: str | None = None
    slower: float | None = None
    slow: bool | None = None
    reason: str | None = None


class SpeedReport(Value, frozen=True):
    """All measurements; `not_measured` says for a node or a measurement why there is none."""

    rows: tuple[SpeedRow, ...]
    not_measured: dict[str, str] = {}
    nodes: tuple[str, ...] = ()
    folder: str | None = None

    @property
    def slow(self) -> tuple[str, ...]:
        """The slow nodes."""
        return tuple(dict.fromkeys(row.node for row in self.rows if row.slow))

    @property
    def exit_code(self) -> int:
        """3 if a node is slow, 5 if one was not measured or is undecided, else 0."""
        measured = {row.node for row in self.rows}
        if self.slow:
            return 3
        looks_slow = any(row.slow is None and (row.slower or 0) > LEAST for row in self.rows)
        return 5 if looks_slow or not set(self.nodes) <= measured or not measured else 0


class Sample(Value, frozen=True):
    """One line of the program: the rates that one rank repeated."""

    node: str
    rank: int
    local_rank: int
    measure: str
    unit: str
    rates: tuple[float, ...]


class Measured(Value, frozen=True):
    """What the ranks measured, and what was asked for: all that a report follows from."""

    samples: tuple[Sample, ...]
    not_measured: dict[str, str]
    nodes: tuple[str, ...]
    gpu_type: str | None
    folder: str

    @property
    def report(self) -> SpeedReport:
        """The judged measurements."""
        return SpeedReport(
            rows=tuple(judge(self.samples, self.gpu_type)),
            not_measured=self.not_measured,
            nodes=self.nodes or tuple(dict.fromkeys(sample.node for sample in self.samples)),
            folder=self.folder,
        )


def read_samples(texts: Iterable[str]) -> tuple[list[Sample], dict[str, str]]:
    """The lines of all ranks, and what they could not measure with the reason of the first."""
    samples: list[Sample] = []
    missing: dict[str, str] = {}
    for text in texts:
        for line in text.splitlines():
            try:
                table = json.loads(line)
                if "missing" in table:
                    missing.setdefault(str(table["measure"]), str(table["missing"]))
                elif "rates" in table:
                    samples.append(_sample(table))
            except (ValueError, KeyError, TypeError, IndexError):
                continue  # the last line of a rank that was killed
    return samples, missing


def _sample(table: Mapping[str, Any]) -> Sample:
    rates = tuple(rate for rate in map(float, table["rates"]) if rate > 0)
    if not rates:
        raise ValueError("no rate")
    return Sample(
        node=str(table["node"]),
        rank=int(table["rank"]),
        local_rank=int(table["local_rank"]),
        measure=str(table["measure"]),
        unit=str(table["unit"]),
        rates=rates,
    )


def judge(samples: Sequence[Sample], gpu_type: str | None) -> list[SpeedRow]:
    """One row for each node and measurement, in the order in which they were measured."""
    measures: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        measures[sample.measure].append(sample)
    return [row for name, group in measures.items() for row in _rows(name, group, gpu_type)]


def _rows(measure: str, samples: Sequence[Sample], gpu_type: str | None) -> list[SpeedRow]:
    ranks: dict[str, list[float]] = defaultdict(list)
    nodes: dict[str, list[str]] = defaultdict(list)
    for sample in samples:
        key = f"{sample.node} {sample.local_rank}"
        ranks[key] += [1 / rate for rate in sample.rates]
        if key not in nodes[sample.node]:
            nodes[sample.node].append(key)
    least = LEAST_NOISY if measure in NOISY else LEAST
    compared = places(ranks, least)
    rows = []
    for node, keys in nodes.items():
        worst = max(keys, key=lambda key: compared[key].value)
        where = f"rank {worst.rpartition(' ')[2]}: " if len(keys) > 1 else ""
        rows.append(_row(node, measure, samples[0].unit, compared[worst], gpu_type, where))
    return rows


def _row(node: str, measure: str, unit: str, place: Place, gpu_type: str | None, where: str) -> SpeedRow:
    value = 1 / place.value
    peak, source = peak_of(measure, gpu_type)
    floor = _expected()["floor"].get(measure)
    row = SpeedRow(
        node=node, measure=measure, unit=unit, value=value, low=place.low, high=place.high,
        slower=place.slower, slow=place.slow,
        expected=value * (1 + place.slower) if place.slower is not None else peak,
        expected_from=OTHERS if place.slower is not None else source,
    )  # fmt: skip
    if peak and floor and value < floor * peak:
        why = f"{where}{100 * value / peak:.0f} % of {peak:g} {unit}, the {source}"
        return row.replace(slow=True, expected=peak, expected_from=source, reason=why)
    if row.slow and row.slower is not None and measure.startswith(GROUPS):
        return row.replace(slow=None, reason=f"its group is {100 * row.slower:.1f} % slower than {OTHERS}")
    if row.slow and row.slower is not None:
        return row.replace(reason=f"{where}{100 * row.slower:.1f} % slower than {OTHERS}")
    if row.slow is None and place.slower is None and peak and floor:
        return row.replace(slow=False)
    return row


def peak_of(measure: str, gpu_type: str | None) -> tuple[float | None, str | None]:
    """What this type of GPU can do at most, and the source; None if that is not known."""
    if gpu_type is None:
        return None, None
    kind, _, dtype = measure.partition(".")
    if kind == "gemm":
        peak = GpuType.peak_of(gpu_type, dtype)
        return (peak.tflops, f"peak of {gpu_type}") if peak else (None, None)
    table = _expected().get(gpu_type, {})
    return (table[measure], f"peak of {gpu_type} ({table['source']})") if measure in table else (None, None)


@functools.cache
def _expected() -> dict[str, dict[str, Any]]:
    path = Path(str(resources.files(__package__).joinpath("expected.toml")))
    tables: dict[str, dict[str, Any]] = read_toml(path, dict[str, dict[str, Any]])
    return tables
