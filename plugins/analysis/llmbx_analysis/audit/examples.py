"""Worked examples: equations that do not hold, figures that are not the table's, peaks of another GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmbx.catalog.hardware import GpuType, peak
from llmbx.errors import UsageError
from llmbx.model import Example

from .arithmetic import equations
from .cells import TOLERANCE, dispute
from .explain import FITS, Known, explain
from .terms import CELLS, Case, compute
from .values import Disputed, ExampleDispute, difference_percent

FIELDS = (*CELLS, "tflops_per_gpu")


def disputed_examples(
    examples: Sequence[Example], cases: Sequence[Case], known: Known, tolerance: float = TOLERANCE, workload: str = ""
) -> list[ExampleDispute]:
    """Everything that does not hold in the examples of one source. `cases` are its rows, tables and examples alike.

    Raises `UsageError` for an example in which nothing can be computed.
    """
    tables = [case for case in cases if case.reference.kind == "table"]
    shown = [_with_known_peak(case, tables, known.gpus) for case in cases if case.reference.kind == "example"]
    found = [*_statements(examples, cases, known, tolerance, workload)]
    for case in shown:
        found += _figures(case, known, tolerance)
        found += _against_table(case, tables, tolerance)
    return [*found, *_stated_peaks(tables, known, tolerance), *_stated_flops(tables, known, tolerance)]


def _figures(case: Case, known: Known, tolerance: float) -> Iterator[ExampleDispute]:
    """Cells of an example that do not follow from its own step time."""
    for field in FIELDS:
        found = dispute(case, field, known, tolerance)
        if found is not None:
            yield _from_cell(found, "formula" if field in ("mfu", "tflops_per_gpu") else "arithmetic")


def _against_table(case: Case, tables: Sequence[Case], tolerance: float) -> Iterator[ExampleDispute]:
    """A step time that is not the one of the table for the same run."""
    r = case.reference
    for table in tables:
        t = table.reference
        if (t.size, t.dtype, t.gpu_type, t.gpus, t.recipe) != (r.size, r.dtype, r.gpu_type, r.gpus, r.recipe):
            continue
        if r.step_time_s is None or t.step_time_s is None:
            continue
        difference = difference_percent(r.step_time_s, t.step_time_s)
        if abs(difference) > 100 * tolerance:
            words = f"the table ({t.source}) has {t.step_time_s:g} s for this run"
            yield _of(case, "table", "step_time_s", r.step_time_s, t.step_time_s, explanation=words)


def _stated_peaks(tables: Sequence[Case], known: Known, tolerance: float) -> Iterator[ExampleDispute]:
    """A table whose peak is not that of its GPU and dtype."""
    for case in _first_of_each(tables, lambda c: (c.reference.source, c.reference.gpu_type, c.reference.dtype)):
        r = case.reference
        right = peak(r.gpu_type, r.dtype, known.gpus)
        if r.peak_tflops is not None and right is not None:
            yield from _peak(case, r.peak_tflops, right.tflops, known.gpus, tolerance)


def _stated_flops(tables: Sequence[Case], known: Known, tolerance: float) -> Iterator[ExampleDispute]:
    """Model FLOPs of a sample that a source states and its formula does not give."""
    for case in _first_of_each(tables, lambda c: (c.reference.size, c.reference.model_flops)):
        stated, ours = case.reference.model_flops, compute("model_flops", case.terms, case.formula)
        if stated is None or ours is None or abs(difference_percent(stated, ours)) <= 100 * tolerance:
            continue
        words = explain(case, "model_flops", stated, known)
        about_size = _of(case, "formula", "model_flops", stated, ours, explanation=words)
        yield about_size.replace(dtype=None, gpu_type=None, gpus=None)


def _statements(
    examples: Sequence[Example], cases: Sequence[Case], known: Known, tolerance: float, workload: str
) -> Iterator[ExampleDispute]:
    for example in examples:
        found = equations(example.text, example.formula)
        if not found and not example.states:
            raise UsageError(f"example '{example.text}' ({example.source}): nothing in it can be computed")
        for equation in found:
            if not equation.holds:
                yield _statement(example, workload, "arithmetic", _name(example), equation.printed, equation.value)
        for field, stated in example.states.items():
            yield from _state(example, field, stated, cases, known, tolerance, workload)


def _state(
    example: Example, field: str, stated: float, cases: Sequence[Case], known: Known, tolerance: float, workload: str
) -> Iterator[ExampleDispute]:
    """One figure that a text states, held against what else is known of that run."""
    fitting = [case for case in cases if _same_run(example, case)]
    right, words, kind = None, example.note, "table"
    if field == "peak_tflops":
        kind, right = "peak", _known_peak(example, known.gpus)
        words = words or _whose_peak(stated, right, known.gpus)
    elif field in ("window_first", "window_last"):
        windows = {case.window for case in fitting if case.window}
        kind, right = "configuration", min((w[field == "window_last"] for w in windows), default=None)
        words = words or "the recipe's measuring window"
    elif field == "model_flops":
        kind = "formula"
        right = _nearest(stated, [compute("model_flops", case.terms, case.formula) for case in fitting])
    else:
        name, scale = ("mfu", 100.0) if field == "mfu_percent" else (field, 1.0)
        values = [getattr(case.reference, name) for case in fitting if case.reference.kind == "table"]
        right = _nearest(stated, [None if value is None else scale * value for value in values])
        words = words or (None if right is None else f"no row of the tables has it; the nearest has {right:g}")
    if right is None or abs(difference_percent(stated, right)) <= 100 * tolerance:
        return
    yield _statement(example, workload, kind, field, stated, right).replace(explanation=words)


def _peak(
    case: Case, stated: float, right: float, gpus: Mapping[str, GpuType], tolerance: float
) -> Iterator[ExampleDispute]:
    if abs(difference_percent(stated, right)) > 100 * tolerance:
        words = _whose_peak(stated, right, gpus)
        yield _of(case, "peak", "peak_tflops", stated, right, explanation=words)


def _whose_peak(stated: float, right: float | None, gpus: Mapping[str, GpuType]) -> str | None:
    """Which GPU and dtype the stated peak is of, or how it was misprinted."""
    for gpu in gpus.values():
        for known in gpu.peaks.values():
            if abs(known.tflops / stated - 1) <= FITS:
                return f"{stated:g} TFLOP/s is the {known.name} peak"
    for power in (10, 100, 1000):
        if right is not None and any(abs(stated * factor / right - 1) <= FITS for factor in (power, 1 / power)):
            return f"misprinted: {right:g} with the decimal point elsewhere"
    return None


def _with_known_peak(case: Case, tables: Sequence[Case], gpus: Mapping[str, GpuType]) -> Case:
    """An example with the peak of its GPU and dtype: the table's, else the known one, rather than its own."""
    r = case.reference
    stated = [t.terms.peak_tflops for t in tables if (t.reference.gpu_type, t.reference.dtype) == (r.gpu_type, r.dtype)]
    right = peak(r.gpu_type, r.dtype, gpus)
    own = stated[0] if stated else (right.tflops if right else case.terms.peak_tflops)
    return dataclasses.replace(case, terms=case.terms.replace(peak_tflops=own))


def _known_peak(example: Example, gpus: Mapping[str, GpuType]) -> float | None:
    found = peak(example.gpu_type, example.dtype, gpus) if example.gpu_type and example.dtype else None
    return found.tflops if found else None


def _same_run(example: Example, case: Case) -> bool:
    """Whether a row is of the run that an example talks about; what the example does not say fits any."""
    names = ("recipe", "size", "dtype", "gpu_type", "gpus")
    return all(getattr(example, name) in (None, getattr(case.reference, name)) for name in names)


def _nearest(stated: float, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value]
    return min(known, key=lambda value: abs(value / stated - 1) if stated else value, default=None)


def _first_of_each(cases: Sequence[Case], key: Any) -> list[Case]:
    return list({key(case): case for case in reversed(cases)}.values())[::-1]


def _name(example: Example) -> str:
    """What an equation computes: the words before its first `=`, or the whole of what is computed."""
    name = example.text.partition("=")[0].strip()
    return name if name and len(name) <= 40 and not any(c.isdigit() for c in name) else "equation"


def _statement(
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
        explanation=example.note,
    )


def _of(
    case: Case, kind: str, field: str, published: float, recomputed: float, explanation: str | None
) -> ExampleDispute:
    r = case.reference
    return ExampleDispute(
        source=r.source,
        workload=case.workload,
        kind=kind,
        field=field,
        published=published,
        recomputed=recomputed,
        difference_percent=difference_percent(published, recomputed),
        size=r.size,
        dtype=r.dtype,
        gpu_type=r.gpu_type,
        gpus=r.gpus,
        explanation=explanation,
    )


def _from_cell(cell: Disputed, kind: str) -> ExampleDispute:
    members = {name: getattr(cell, name) for name in cell.__struct_fields__}
    return ExampleDispute(kind=kind, **members)
