"""Published figures as data: tables in the shape they were printed in, one column a scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .errors import UsageError
from .model import Convention, Reference, Value

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

COLUMNS = (
    "global_batch_size",
    "step_time_s",
    "step_time_std_s",
    "tokens_per_s",
    "days_per_1t_tokens",
    "tflops_per_gpu",
    "tflops_per_gpu_std",
)


class ReferenceTable(Value, frozen=True):
    """One published table (or example): what holds for all of it, then its rows as lists with one entry a scale.

    Figures stand as they were printed; `mfu_percent` is in percent. `peak_tflops` and `model_flops` are those that the
    source computes the MFU with. `disputed` says, by scale, why a column is doubted.
    """

    source: str
    size: str
    dtype: str
    gpu_type: str
    gpus: tuple[int, ...]
    recipe: str | None = None
    kind: Literal["table", "example"] = "table"
    convention: Convention = "full"
    peak_tflops: float | None = None
    model_flops: float | None = None
    global_batch_size: tuple[int, ...] = ()
    step_time_s: tuple[float, ...] = ()
    step_time_std_s: tuple[float, ...] = ()
    tokens_per_s: tuple[float, ...] = ()
    mfu_percent: tuple[float, ...] = ()
    days_per_1t_tokens: tuple[float, ...] = ()
    tflops_per_gpu: tuple[float, ...] = ()
    tflops_per_gpu_std: tuple[float, ...] = ()
    disputed: dict[str, str] = {}


class ReferenceFile(Value, frozen=True):
    """A file of published tables."""

    tables: tuple[ReferenceTable, ...]


def load_references(path: Path | Traversable) -> tuple[Reference, ...]:
    """The figures of a file of tables, one `Reference` a scale. Raises `UsageError` with the file and the place."""
    from .strict import read_toml

    tables = read_toml(path, ReferenceFile).tables
    return tuple(
        reference
        for number, table in enumerate(tables)
        for reference in _references(table, f"{path}: at tables[{number}]")
    )


def _references(table: ReferenceTable, place: str) -> list[Reference]:
    for key in (*COLUMNS, "mfu_percent"):
        if len(getattr(table, key)) not in (0, len(table.gpus)):
            raise UsageError(f"{place}.{key}: {len(getattr(table, key))} figures for {len(table.gpus)} scales")
    for scale in table.disputed:
        if scale not in map(str, table.gpus):
            raise UsageError(f"{place}.disputed: the table has no scale '{scale}'")
    return [_reference(table, index) for index in range(len(table.gpus))]


def _reference(table: ReferenceTable, index: int) -> Reference:
    figures: dict[str, Any] = {key: getattr(table, key)[index] for key in COLUMNS if getattr(table, key)}
    if table.mfu_percent:
        figures["mfu"] = round(table.mfu_percent[index] / 100, 6)
    return Reference(
        source=table.source,
        size=table.size,
        dtype=table.dtype,
        gpu_type=table.gpu_type,
        gpus=table.gpus[index],
        kind=table.kind,
        recipe=table.recipe,
        convention=table.convention,
        peak_tflops=table.peak_tflops,
        model_flops=table.model_flops,
        disputed=table.disputed.get(str(table.gpus[index])),
        **figures,
    )
