"""Read published results from TOML: tables as they were printed, with one column per scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..model import Convention, Example, Reference, Value
from ..model.parts import Kind
from ..phrases import did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

COLUMNS = (
    "global_batch_size",
    "step_time_s",
    "step_time_std_s",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "days_per_1t_tokens",
    "tflops_per_gpu",
    "tflops_per_gpu_std",
)

STATES = (
    "step_time_s",
    "tokens_per_s",
    "mfu_percent",
    "days_per_1t_tokens",
    "global_batch_size",
    "peak_tflops",
    "model_flops",
    "window_first",
    "window_last",
)
"""Values of a run that an example may state."""


LAYOUT = ("tp", "pp", "cp", "ep", "vp", "mbs")
"""Keys of a table's `layout`."""


class ReferenceTable(Value, frozen=True):
    """One published table (or example): values that apply to the whole table, then the rows as lists with one entry per
    scale.

    Numbers are written as printed; `mfu_percent` is in percent. `peak_tflops` and `model_flops` are the values that the
    source computes the MFU with. `disputed` maps a scale to the reason why its column is disputed. Without
    `step_time_s` the step time is computed from `tokens_per_s_per_gpu`, `global_batch_size` and `sequence_length`, or
    from `tflops_per_gpu`, `global_batch_size` and `model_flops`.
    `whole_samples` states that the tokens are those of a whole number of samples per second of all GPUs: the source
    rounded those, and the step time is only as exact. `layout` has the degrees of parallelism and the micro-batch size
    (tp, pp, cp, ep, vp, mbs) of the published runs, if the recipe has others now.
    """

    source: str
    size: str
    dtype: str
    gpu_type: str
    gpus: tuple[int, ...]
    recipe: str | None = None
    kind: Kind = "table"
    convention: Convention = "full"
    peak_tflops: float | None = None
    model_flops: float | None = None
    global_batch_size: tuple[int, ...] = ()
    step_time_s: tuple[float, ...] = ()
    step_time_std_s: tuple[float, ...] = ()
    tokens_per_s: tuple[float, ...] = ()
    tokens_per_s_per_gpu: tuple[float, ...] = ()
    mfu_percent: tuple[float, ...] = ()
    days_per_1t_tokens: tuple[float, ...] = ()
    tflops_per_gpu: tuple[float, ...] = ()
    tflops_per_gpu_std: tuple[float, ...] = ()
    sequence_length: int | None = None
    whole_samples: bool = False
    disputed: dict[str, str] = {}
    layout: dict[str, int] = {}


class ReferenceFile(Value, frozen=True):
    """A file of published tables and worked examples; `workload` names the workload they belong to."""

    tables: tuple[ReferenceTable, ...] = ()
    examples: tuple[Example, ...] = ()
    workload: str | None = None


class Published(Value, frozen=True):
    """Content of a reference file: one `Reference` per scale, the worked examples, and the workload if the file names
    it.
    """

    references: tuple[Reference, ...] = ()
    examples: tuple[Example, ...] = ()
    workload: str | None = None

    @staticmethod
    def read(path: Path | Traversable) -> Published:
        """Read the whole reference file `path`. Raises `UsageError` with the file and the key."""
        from ..toml_file import read_toml

        file = read_toml(path, ReferenceFile)
        for number, example in enumerate(file.examples):
            _check_states(example, f"{path}: at examples[{number}].states")
        references = tuple(
            reference
            for number, table in enumerate(file.tables)
            for reference in _references(table, f"{path}: at tables[{number}]")
        )
        return Published(references=references, examples=file.examples, workload=file.workload)


def _references(table: ReferenceTable, place: str) -> list[Reference]:
    for key in (*COLUMNS, "mfu_percent"):
        if len(getattr(table, key)) not in (0, len(table.gpus)):
            raise UsageError(f"{place}.{key}: {len(getattr(table, key))} values for {len(table.gpus)} scales")
    for key in ("gpus", *COLUMNS, "mfu_percent", "peak_tflops", "model_flops", "sequence_length"):
        value = getattr(table, key)
        for figure in value if isinstance(value, tuple) else () if value is None else (value,):
            _check_figure(figure, f"{place}.{key}", zero=key.endswith(("std_s", "gpu_std")))
    if table.tokens_per_s_per_gpu and not table.step_time_s and not (table.global_batch_size and table.sequence_length):
        raise UsageError(f"{place}: global_batch_size and sequence_length are required to compute the step time")
    for scale in table.disputed:
        if scale not in map(str, table.gpus):
            raise UsageError(f"{place}.disputed: the table has no scale '{scale}'")
    for name, degree in table.layout.items():
        if name not in LAYOUT or degree < 1:
            raise UsageError(f"{place}.layout: expected {', '.join(LAYOUT)} >= 1, got {name} = {degree}")
    return [_reference(table, index) for index in range(len(table.gpus))]


def _check_states(example: Example, place: str) -> None:
    for name, figure in example.states.items():
        if name not in STATES:
            raise UsageError(f"{place}: unknown metric '{name}'{did_you_mean(name, STATES)}")
        _check_figure(figure, f"{place}.{name}", zero=name.startswith("window"))


def _check_figure(figure: float, place: str, zero: bool = False) -> None:
    if not math.isfinite(figure) or figure < 0 or (figure == 0 and not zero):
        raise UsageError(f"{place}: expected a number {'>= 0' if zero else '> 0'}, got {figure:g}")


def _reference(table: ReferenceTable, index: int) -> Reference:
    figures: dict[str, Any] = {key: getattr(table, key)[index] for key in COLUMNS if getattr(table, key)}
    if table.mfu_percent:
        figures["mfu"] = round(table.mfu_percent[index] / 100, 6)
    if "step_time_s" not in figures and "tokens_per_s_per_gpu" in figures:
        tokens = figures["global_batch_size"] * table.sequence_length
        figures["step_time_s"] = tokens / (figures["tokens_per_s_per_gpu"] * table.gpus[index])
        figures["step_time_from"] = "tokens_per_s_per_gpu"
    if "step_time_s" not in figures and "tflops_per_gpu" in figures and table.model_flops and table.global_batch_size:
        flops = figures["global_batch_size"] * table.model_flops
        figures["step_time_s"] = flops / (figures["tflops_per_gpu"] * 1e12 * table.gpus[index])
        figures["step_time_from"] = "tflops_per_gpu"
    if "step_time_s" in figures:
        printed = figures.get("step_time_from", "step_time_s")
        half = _half_unit(getattr(table, printed))
        if table.whole_samples and printed == "tokens_per_s_per_gpu" and table.sequence_length:
            half = 0.5 * table.sequence_length / table.gpus[index]
        figures["step_time_rounding_s"] = half * figures["step_time_s"] / figures[printed]
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
        sequence_length=table.sequence_length,
        disputed=table.disputed.get(str(table.gpus[index])),
        layout=table.layout,
        **figures,
    )


def _half_unit(figures: tuple[float, ...]) -> float:
    """Half a unit of the last place of figures that were printed with the same number of decimals.

    TOML drops trailing zeros, so the figure with the most decimals counts.
    """
    decimals = max(len(f"{figure:.9f}".partition(".")[2].rstrip("0")) for figure in figures)
    return 0.5 * 10.0**-decimals
