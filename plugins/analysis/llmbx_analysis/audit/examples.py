"""Check worked examples: wrong equations, figures that differ from the tables, and wrong peaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmbx.api import Example, Peak, UsageError, hardware

from .arithmetic import equations
from .cells import TOLERANCE, dispute
from .explain import MATCH, Candidates, explain, peak_names
from .findings import Disputed, ExampleDispute, difference_percent
from .terms import CELLS, Case, compute

NEAR_PERCENT = 5.0
"""Largest difference of a source's own peak for its GPU type from the data sheet's: the recipes' is 2 % for GB200."""


def disputed_examples(
    examples: Sequence[Example],
    cases: Sequence[Case],
    candidates: Candidates,
    tolerance: float = TOLERANCE,
    workload: str = "",
) -> list[ExampleDispute]:
    """Check the examples of one source. `cases` are its rows, from tables and from examples.

    Raises `UsageError` if an example has nothing that can be computed.
    """
    tables = [case for case in cases if case.reference.kind == "table"]
    example_cases = [_with_known_peak(case, tables, candidates) for case in cases if case.reference.kind == "example"]
    found = [*_check_statements(examples, cases, candidates, tolerance, workload)]
    for case in example_cases:
        found += _check_figures(case, candidates, tolerance)
        found += _check_step_time(case, tables, tolerance)
    return [*found, *_check_peaks(tables, candidates, tolerance), *_check_model_flops(tables, candidates, tolerance)]


def _check_figures(case: Case, candidates: Candidates, tolerance: float) -> Iterator[ExampleDispute]:
    """Figures of an example that do not follow from its own step time."""
    for field in CELLS:
        found = dispute(case, field, candidates, tolerance)
        if found is not None:
            yield _from_cell(found, "formula" if field in ("mfu", "tflops_per_gpu") else "arithmetic")


def _check_step_time(case: Case, tables: Sequence[Case], tolerance: float) -> Iterator[ExampleDispute]:
    """Step times that differ from the table row of the same run."""
    r = case.reference
    for table in tables:
        t = table.reference
        if (t.size, t.dtype, t.gpu_type, t.gpus, t.recipe) != (r.size, r.dtype, r.gpu_type, r.gpus, r.recipe):
            continue
        if r.step_time_s is None or t.step_time_s is None:
            continue
        difference = difference_percent(r.step_time_s, t.step_time_s)
        if abs(difference) > 100 * tolerance:
            explanation = f"the table ({t.source}) lists {t.step_time_s:g} s for this run"
            yield _row_dispute(case, "table", "step_time_s", r.step_time_s, t.step_time_s, explanation=explanation)


def _check_peaks(tables: Sequence[Case], candidates: Candidates, tolerance: float) -> Iterator[ExampleDispute]:
    """Tables with a peak that is not the one of their GPU type and dtype."""
    for case in _unique_by(tables, lambda c: (c.reference.source, c.reference.gpu_type, c.reference.dtype)):
        r = case.reference
        right = hardware.peak(r.gpu_type, r.dtype, candidates.gpus)
        if r.peak_tflops is not None and right is not None:
            yield from _check_peak(case, r.peak_tflops, right, candidates, tolerance)


def _check_model_flops(tables: Sequence[Case], candidates: Candidates, tolerance: float) -> Iterator[ExampleDispute]:
    """Stated model FLOPs per sample that differ from the formula."""
    for case in _unique_by(tables, lambda c: (c.reference.size, c.reference.model_flops)):
        stated, computed = case.reference.model_flops, compute("model_flops", case.terms, case.formula)
        if stated is None or computed is None or abs(difference_percent(stated, computed)) <= 100 * tolerance:
            continue
        explanation = explain(case, "model_flops", stated, candidates)
        found = _row_dispute(case, "formula", "model_flops", stated, computed, explanation=explanation)
        yield found.replace(dtype=None, gpu_type=None, gpus=None)


def _check_statements(
    examples: Sequence[Example], cases: Sequence[Case], candidates: Candidates, tolerance: float, workload: str
) -> Iterator[ExampleDispute]:
    for example in examples:
        found = equations(example.text, example.formula)
        if not found and not example.states:
            raise UsageError(f"example '{example.text}' ({example.source}): nothing can be computed")
        for equation in found:
            if not equation.holds:
                yield _example_dispute(
                    example, workload, "arithmetic", _name(example), equation.printed, equation.value
                )
        for field, stated in example.states.items():
            yield from _check_stated(example, field, stated, cases, candidates, tolerance, workload)


def _check_stated(
    example: Example,
    field: str,
    stated: float,
    cases: Sequence[Case],
    candidates: Candidates,
    tolerance: float,
    workload: str,
) -> Iterator[ExampleDispute]:
    """Compare one stated figure with the tables, the known peaks, the formula or the recipe."""
    matching = [case for case in cases if _same_run(example, case)]
    right, explanation, kind = None, example.note, "table"
    if field == "peak_tflops":
        kind, right = "peak", _right_peak(example, stated, cases, candidates.gpus)
        explanation = explanation or _explain_stated(example, stated, right, candidates)
    elif field in ("window_first", "window_last"):
        windows = {case.window for case in matching if case.window}
        kind, right = "configuration", min((w[field == "window_last"] for w in windows), default=None)
        explanation = explanation or "the recipe's measurement window"
    elif field == "model_flops":
        kind = "formula"
        right = _nearest(stated, [compute("model_flops", case.terms, case.formula) for case in matching])
    else:
        name, scale = ("mfu", 100.0) if field == "mfu_percent" else (field, 1.0)
        values = [getattr(case.reference, name) for case in matching if case.reference.kind == "table"]
        right = _nearest(stated, [None if value is None else scale * value for value in values])
        explanation = explanation or (None if right is None else f"not in the tables; the nearest value is {right:g}")
    if right is None or abs(difference_percent(stated, right)) <= 100 * tolerance:
        return
    yield _example_dispute(example, workload, kind, field, stated, right).replace(explanation=explanation)


def _check_peak(
    case: Case, stated: float, right: Peak, candidates: Candidates, tolerance: float
) -> Iterator[ExampleDispute]:
    """A table whose peak is not the data sheet's. Its figures are still recomputed with its own."""
    if abs(difference_percent(stated, right.tflops)) > 100 * tolerance:
        others = dataclasses.replace(candidates, cases=())  # the table's own peak explains nothing
        explanation = _explain_peak(stated, right.tflops, others) or _own_peak(stated, right)
        yield _row_dispute(case, "peak", "peak_tflops", stated, right.tflops, explanation=explanation)


def _own_peak(stated: float, right: Peak) -> str | None:
    """Name both peaks of a source that has its own figure near the data sheet's; None if it is not near."""
    if abs(difference_percent(stated, right.tflops)) > NEAR_PERCENT:
        return None
    return (
        f"the source has its own peak; {right.tflops:g} is that of the {right.source.partition(':')[0]} ({right.name})"
    )


def _explain_stated(example: Example, stated: float, right: float | None, candidates: Candidates) -> str | None:
    known = hardware.peak(example.gpu_type or "", example.dtype or "", candidates.gpus)
    return _explain_peak(stated, right, candidates) or (_own_peak(stated, known) if known else None)


def _explain_peak(stated: float, right: float | None, candidates: Candidates) -> str | None:
    """The GPU types and dtypes that have the stated peak, or a misplaced decimal point."""
    known = [names for tflops, names in peak_names(candidates).items() if abs(tflops / stated - 1) <= MATCH]
    if known:
        return f"{stated:g} TFLOP/s is the peak of {' or '.join(name for names in known for name in names)}"
    for power in (10, 100, 1000):
        if right is not None and any(abs(stated * factor / right - 1) <= MATCH for factor in (power, 1 / power)):
            return f"misprint: {right:g} with a misplaced decimal point"
    return None


def _with_known_peak(case: Case, tables: Sequence[Case], candidates: Candidates) -> Case:
    """The example with the peak that the tables print for its GPU type and dtype.

    Without such a table it keeps its own, unless that is another GPU's or a misprint: then it gets the data sheet's.
    """
    r, own = case.reference, case.terms.peak_tflops
    stated = [t.terms.peak_tflops for t in tables if (t.reference.gpu_type, t.reference.dtype) == (r.gpu_type, r.dtype)]
    right = hardware.peak(r.gpu_type, r.dtype, candidates.gpus)
    if stated:
        own = stated[0]
    elif right is not None and (own is None or _explain_peak(own, right.tflops, candidates)):
        own = right.tflops
    return dataclasses.replace(case, terms=case.terms.replace(peak_tflops=own))


def _right_peak(
    example: Example, stated: float, cases: Sequence[Case], gpus: Mapping[str, hardware.GpuType]
) -> float | None:
    """The data sheet's peak of the example's GPU type and dtype, or the one of the source's tables, if nearer."""
    if not (example.gpu_type and example.dtype):
        return None
    found = hardware.peak(example.gpu_type, example.dtype, gpus)
    rows = [case.reference for case in cases if case.reference.kind == "table"]
    printed = [r.peak_tflops for r in rows if (r.gpu_type, r.dtype) == (example.gpu_type, example.dtype)]
    return _nearest(stated, [*printed, found.tflops if found else None])


def _same_run(example: Example, case: Case) -> bool:
    """Whether a row describes the run of an example. Fields that the example does not set match any value."""
    names = ("recipe", "size", "dtype", "gpu_type", "gpus")
    return all(getattr(example, name) in (None, getattr(case.reference, name)) for name in names)


def _nearest(stated: float, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value]
    return min(known, key=lambda value: abs(value / stated - 1) if stated else value, default=None)


def _unique_by(cases: Sequence[Case], key: Any) -> list[Case]:
    return list({key(case): case for case in reversed(cases)}.values())[::-1]


def _name(example: Example) -> str:
    """The name of an equation: the words before its first `=`, else `equation`."""
    name = example.text.partition("=")[0].strip()
    return name if name and len(name) <= 40 and not any(c.isdigit() for c in name) else "equation"


def _example_dispute(
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


def _row_dispute(
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
