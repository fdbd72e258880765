"""Check worked examples: wrong equations, figures that differ from the tables, and wrong peaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from llmbx.api import Example, GpuType, UsageError

from .arithmetic import equations
from .cells import TOLERANCE, dispute
from .findings import UNEXPLAINED, Disputed, ExampleDispute, difference_percent
from .terms import CELLS, Case, compute

NEAR_PERCENT = 5.0
"""Largest difference of a source's own peak for its GPU type from the data sheet's: the recipes' is 2 % for GB200."""

Gpus = Mapping[str, GpuType]


def disputed_examples(
    examples: Sequence[Example],
    cases: Sequence[Case],
    gpus: Gpus,
    tolerance: float = TOLERANCE,
    workload: str = "",
) -> list[ExampleDispute]:
    """Check the examples of one source. `cases` are its rows, from tables and from examples.

    Raises `UsageError` if an example has nothing that can be computed.
    """
    tables = [case for case in cases if case.reference.kind == "table"]
    example_rows = [_with_known_peak(case, tables, gpus) for case in cases if case.reference.kind == "example"]
    disputes = [*_check_statements(examples, cases, gpus, workload)]
    for case in example_rows:
        disputes += _check_figures(case, tolerance)
        disputes += _check_step_time(case, tables)
    disputes += _check_peaks(tables, gpus)
    disputes += _check_model_flops(tables)
    return [item for item in disputes if _exceeds(item, tolerance)]


def _exceeds(item: ExampleDispute, tolerance: float) -> bool:
    """Whether an example is wrong by more than the tolerance. Arithmetic is exact to the last printed digit."""
    return item.kind == "arithmetic" or abs(item.difference_percent) > 100 * tolerance


def _check_statements(
    examples: Sequence[Example], cases: Sequence[Case], gpus: Gpus, workload: str
) -> Iterator[ExampleDispute]:
    for example in examples:
        parsed = equations(example.text, example.formula)
        if not parsed and not example.states:
            raise UsageError(f"example '{example.text}' ({example.source}): nothing can be computed")
        for equation in parsed:
            if not equation.holds:
                name = _name(example)
                yield _from_example(example, workload, "arithmetic", name, equation.printed, equation.value)
        for field, stated in example.states.items():
            kind, right = _recomputed(example, field, stated, cases, gpus)
            if right is not None:
                yield _from_example(example, workload, kind, field, stated, right)


def _recomputed(
    example: Example, field: str, stated: float, cases: Sequence[Case], gpus: Gpus
) -> tuple[str, float | None]:
    """What a stated figure is compared with (the kind of the finding), and its right value; None if unknown.

    If the tables have several values for the run of the example, the nearest one is taken.
    """
    matching = [case for case in cases if _same_run(example, case)]
    if field == "peak_tflops":
        return "peak", _nearest(stated, _peaks(example, cases, gpus))
    if field in ("window_first", "window_last"):
        windows = {case.window for case in matching if case.window}
        return "configuration", min((window[field == "window_last"] for window in windows), default=None)
    if field == "model_flops":
        return "formula", _nearest(stated, [compute("model_flops", case.terms, case.formula) for case in matching])
    name, scale = ("mfu", 100.0) if field == "mfu_percent" else (field, 1.0)
    values = [getattr(case.reference, name) for case in matching if case.reference.kind == "table"]
    return "table", _nearest(stated, [None if value is None else scale * value for value in values])


def _peaks(example: Example, cases: Sequence[Case], gpus: Gpus) -> Iterator[float | None]:
    """Right peaks for an example: those that the source's tables divide by, and the data sheet's."""
    if example.gpu_type and example.dtype:
        yield from _printed_peaks(cases, example.gpu_type, example.dtype)
        right = GpuType.peak_of(example.gpu_type, example.dtype, gpus)
        yield right.tflops if right else None


def _printed_peaks(cases: Sequence[Case], gpu_type: str, dtype: str) -> list[float | None]:
    rows = [case.reference for case in cases if case.reference.kind == "table"]
    return [row.peak_tflops for row in rows if (row.gpu_type, row.dtype) == (gpu_type, dtype)]


def _check_figures(case: Case, tolerance: float) -> Iterator[ExampleDispute]:
    """Figures of an example that do not follow from its own step time."""
    for field in CELLS:
        cell = dispute(case, field, tolerance)
        if cell is not None:
            yield _from_cell(cell, "formula" if field in ("mfu", "tflops_per_gpu") else "arithmetic")


def _check_step_time(case: Case, tables: Sequence[Case]) -> Iterator[ExampleDispute]:
    """The step time of an example beside that of each table row of the same run."""
    example = case.reference
    run = (example.size, example.dtype, example.gpu_type, example.gpus, example.recipe)
    for row in (table.reference for table in tables):
        if (row.size, row.dtype, row.gpu_type, row.gpus, row.recipe) != run:
            continue
        if example.step_time_s is not None and row.step_time_s is not None:
            yield _from_row(case, "table", "step_time_s", example.step_time_s, row.step_time_s)


def _check_peaks(tables: Sequence[Case], gpus: Gpus) -> Iterator[ExampleDispute]:
    """Peaks of tables beside those of the data sheets. A table's figures are recomputed with its own peak."""
    rows = {(case.reference.source, case.reference.gpu_type, case.reference.dtype): case for case in reversed(tables)}
    for (_, gpu_type, dtype), case in reversed(rows.items()):
        stated, right = case.reference.peak_tflops, GpuType.peak_of(gpu_type, dtype, gpus)
        if stated is not None and right is not None:
            yield _from_row(case, "peak", "peak_tflops", stated, right.tflops)


def _check_model_flops(tables: Sequence[Case]) -> Iterator[ExampleDispute]:
    """Stated model FLOPs per sample beside those of the formula."""
    rows = {(case.reference.size, case.reference.model_flops): case for case in reversed(tables)}
    for (_, stated), case in reversed(rows.items()):
        computed = compute("model_flops", case.terms, case.formula)
        if stated is not None and computed is not None:
            item = _from_row(case, "formula", "model_flops", stated, computed)
            yield item.replace(dtype=None, gpu_type=None, gpus=None)


def _with_known_peak(case: Case, tables: Sequence[Case], gpus: Gpus) -> Case:
    """The example with the peak that the tables print for its GPU type and dtype.

    Without such a table it has its own if that is near the data sheet's, else the data sheet's.
    """
    own, row = case.terms.peak_tflops, case.reference
    printed = [
        table.terms.peak_tflops
        for table in tables
        if (table.reference.gpu_type, table.reference.dtype) == (row.gpu_type, row.dtype)
    ]
    right = GpuType.peak_of(row.gpu_type, row.dtype, gpus)
    if printed:
        own = printed[0]
    elif right is not None and (own is None or abs(difference_percent(own, right.tflops)) > NEAR_PERCENT):
        own = right.tflops
    return dataclasses.replace(case, terms=case.terms.replace(peak_tflops=own))


def _same_run(example: Example, case: Case) -> bool:
    """Whether a row describes the run of an example. Fields that the example does not set match any value."""
    names = ("recipe", "size", "dtype", "gpu_type", "gpus")
    return all(getattr(example, name) in (None, getattr(case.reference, name)) for name in names)


def _nearest(stated: float, values: Iterable[float | None]) -> float | None:
    positive = [value for value in values if value]
    return min(positive, key=lambda value: abs(value / stated - 1) if stated else value, default=None)


def _name(example: Example) -> str:
    """The name of an equation: the words before its first `=`, else `equation`."""
    name = example.text.partition("=")[0].strip()
    return name if name and len(name) <= 40 and not any(c.isdigit() for c in name) else "equation"


def _from_example(
    example: Example, workload: str, kind: str, field: str, published: float, recomputed: float
) -> ExampleDispute:
    return ExampleDispute(
        source=example.source,
        workload=workload,
        kind=kind,
        field=field,
        published=published,
        recomputed=recomputed,
        difference_percent=difference_percent(published, recomputed),
        size=example.size,
        dtype=example.dtype,
        gpu_type=example.gpu_type,
        gpus=example.gpus,
        text=example.text,
        reason=example.note or UNEXPLAINED,
    )


def _from_row(case: Case, kind: str, field: str, published: float, recomputed: float) -> ExampleDispute:
    row = case.reference
    return ExampleDispute(
        source=row.source,
        workload=case.workload,
        kind=kind,
        field=field,
        published=published,
        recomputed=recomputed,
        difference_percent=difference_percent(published, recomputed),
        size=row.size,
        dtype=row.dtype,
        gpu_type=row.gpu_type,
        gpus=row.gpus,
    )


def _from_cell(cell: Disputed, kind: str) -> ExampleDispute:
    members = {name: getattr(cell, name) for name in cell.__struct_fields__}
    return ExampleDispute(kind=kind, **members)
