"""The results of a sweep, one row per cell: the mean over its repeats and the scaling efficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmbx.api import Result, Value, mean_of
from llmbx_verdict.statistics import intervals

from .cells import Cell
from .state import Slot


class Row(Value, frozen=True):
    """One cell. `n` of its `repeats` have valid data. The interval is Student's 95 % interval over their means.

    Throughput and MFU are computed from the mean step time. `efficiency` is the throughput per GPU as a fraction of
    that of the same cell on the fewest GPUs. `status` is completed if all repeats are, else the status of the first
    repeat that is not (`missing`: not run yet), with its cause.

    Of a cell on one `node`, `slower` is how much longer its steps take than on the other nodes (a fraction, with its
    95 % interval); `slow` is None if that is not decided. `against_prediction` is within, slower or faster.
    """

    cell: str
    workload: str
    size: str
    dtype: str
    gpu_type: str
    gpus: int
    settings: dict[str, str]
    repeats: int
    n: int
    status: str
    step_time_s: float | None = None
    ci95_low: float | None = None
    ci95_high: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu: float | None = None
    efficiency: float | None = None
    cause: str | None = None
    runs: tuple[str, ...] = ()
    node: str | None = None
    slower: float | None = None
    slower_low: float | None = None
    slower_high: float | None = None
    slow: bool | None = None
    predicted_step_time_s: float | None = None
    against_prediction: str | None = None


def summarize(cells: Sequence[Cell], results: Mapping[Slot, Result]) -> list[Row]:
    """One row per cell, in the order of the plan."""
    rows = [_row(cell, [results.get((cell.key, number + 1)) for number in range(cell.repeats)]) for cell in cells]
    bases = _bases(cells, rows)
    return [row.replace(efficiency=_ratio(row, bases[_family(cell)])) for cell, row in zip(cells, rows, strict=True)]


def _row(cell: Cell, results: Sequence[Result | None]) -> Row:
    spec, there = cell.spec, [result for result in results if result is not None]
    valid = [result for result in there if result.data_valid]
    times = [result.step_time_s.mean for result in valid if result.step_time_s.mean is not None]
    interval = intervals.over_repeats(times)
    status, cause = _status(results)
    return Row(
        cell=cell.key, workload=spec.workload, size=spec.size, dtype=spec.dtype, gpu_type=spec.gpu_type,
        gpus=spec.gpus, settings=cell.settings, repeats=cell.repeats, n=len(times), status=status, cause=cause,
        node=cell.node,
        step_time_s=mean_of(times),
        ci95_low=interval.low if interval else None,
        ci95_high=interval.high if interval else None,
        tokens_per_s=_rate([result.tokens_per_s for result in valid]),
        tokens_per_s_per_gpu=_rate([result.tokens_per_s_per_gpu for result in valid]),
        mfu=_rate([result.mfu.value for result in valid]),
        runs=tuple(result.run_id for result in there),
    )  # fmt: skip


def _status(results: Sequence[Result | None]) -> tuple[str, str | None]:
    for result in results:
        if result is not None and result.status != "completed":
            return result.status, result.cause
    return ("missing", None) if None in results else ("completed", None)


def _rate(values: Sequence[float | None]) -> float | None:
    """The rate at the mean step time, which is the harmonic mean of the rates of the repeats."""
    per_rate = mean_of([1 / value for value in values if value])
    return 1 / per_rate if per_rate else None


def _family(cell: Cell) -> tuple[object, ...]:
    """The properties that cells share if they differ only in their number of GPUs."""
    spec = cell.spec
    return (
        spec.plugin, spec.workload, spec.size, spec.dtype, spec.gpu_type, spec.recipe, cell.part, cell.node,
        tuple(sorted(cell.settings.items())),
    )  # fmt: skip


def _bases(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[tuple[object, ...], Row | None]:
    """The row on the fewest GPUs that has a throughput, for cells that exist at several scales (else None)."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for cell, row in zip(cells, rows, strict=True):
        groups.setdefault(_family(cell), []).append(row)
    return {
        key: min((row for row in group if row.tokens_per_s_per_gpu), key=lambda row: row.gpus, default=None)
        if len({row.gpus for row in group}) > 1
        else None
        for key, group in groups.items()
    }


def _ratio(row: Row, base: Row | None) -> float | None:
    if base is None or not base.tokens_per_s_per_gpu or row.tokens_per_s_per_gpu is None:
        return None
    return row.tokens_per_s_per_gpu / base.tokens_per_s_per_gpu
