"""Recomputing the cells of published tables. Pure: the same cases give the same answer."""

from __future__ import annotations

from collections.abc import Sequence

from .explain import Known, explain
from .terms import CELLS, Case, compute
from .values import Disputed, difference_percent

TOLERANCE = 0.006
"""A published figure may differ by this fraction: three printed digits, multiplied a few times."""


def count(cases: Sequence[Case], fields: Sequence[str] = CELLS) -> int:
    """How many published figures the cases hold that can be recomputed."""
    return sum(
        getattr(case.reference, field) is not None and compute(field, case.terms, case.formula) is not None
        for case in cases
        for field in fields
    )


def printed(cases: Sequence[Case], fields: Sequence[str] = CELLS) -> int:
    """How many figures the cases publish, whether they can be recomputed or not."""
    return sum(getattr(case.reference, field) is not None for case in cases for field in fields)


def disputes(
    cases: Sequence[Case], known: Known, tolerance: float = TOLERANCE, fields: Sequence[str] = CELLS
) -> list[Disputed]:
    """Every figure of the cases that differs from the recomputed one by more than `tolerance` (a fraction)."""
    found = [dispute(case, field, known, tolerance) for case in cases for field in fields]
    return [item for item in found if item is not None]


def dispute(case: Case, field: str, known: Known, tolerance: float = TOLERANCE) -> Disputed | None:
    """The dispute about one figure, or None when it agrees, is not published or cannot be recomputed."""
    published: float | None = getattr(case.reference, field)
    recomputed = compute(field, case.terms, case.formula)
    if published is None or recomputed is None:
        return None
    difference = difference_percent(published, recomputed)
    if abs(difference) <= 100 * tolerance:
        return None
    r = case.reference
    return Disputed(
        source=r.source,
        workload=case.workload,
        size=r.size,
        dtype=r.dtype,
        gpu_type=r.gpu_type,
        gpus=r.gpus,
        field=field,
        published=published,
        recomputed=recomputed,
        difference_percent=difference,
        explanation=explain(case, field, published, known),
    )
