"""Recompute the cells of published tables and list those that differ."""

from __future__ import annotations

from collections.abc import Sequence

from .findings import UNEXPLAINED, Disputed, difference_percent
from .terms import CELLS, Case, compute

TOLERANCE = 0.006
"""Default of --tolerance, a fraction: covers the rounding of inputs that are printed with three digits."""


def count_recomputable(cases: Sequence[Case], fields: Sequence[str] = CELLS) -> int:
    """Number of published figures that can be recomputed."""
    return sum(
        getattr(case.reference, field) is not None and compute(field, case.terms, case.formula) is not None
        for case in cases
        for field in fields
    )


def count_published(cases: Sequence[Case], fields: Sequence[str] = CELLS) -> int:
    """Number of published figures."""
    return sum(getattr(case.reference, field) is not None for case in cases for field in fields)


def disputes(cases: Sequence[Case], tolerance: float = TOLERANCE, fields: Sequence[str] = CELLS) -> list[Disputed]:
    """The figures that differ from the recomputed ones by more than `tolerance` (a fraction)."""
    items = [dispute(case, field, tolerance) for case in cases for field in fields]
    return [item for item in items if item is not None]


def dispute(case: Case, field: str, tolerance: float = TOLERANCE) -> Disputed | None:
    """Compare one figure with the recomputed one. None if they agree, or if either of them is missing.

    A step time that was computed from another figure is only as exact as that one, which widens the tolerance.
    """
    published: float | None = getattr(case.reference, field)
    recomputed = compute(field, case.terms, case.formula)
    if published is None or recomputed is None:
        return None
    difference = difference_percent(published, recomputed)
    r = case.reference
    inexact = (r.step_time_rounding_s or 0.0) / r.step_time_s if r.step_time_from and r.step_time_s else 0.0
    if abs(difference) <= 100 * (tolerance + inexact):
        return None
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
        reason=r.disputed or UNEXPLAINED,
    )
