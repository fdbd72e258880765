"""Findings of an audit: published figures that differ from the recomputed ones."""

from __future__ import annotations

from llmbx.api import Scalar, Value

UNEXPLAINED = "unexplained"
"""The reason of a finding for which none is known."""


class Disputed(Value, frozen=True):
    """One cell of a performance table. `mfu` is a fraction; `difference_percent` is relative to the recomputed figure.

    `reason` says why the row is wrong, as the reference file states it.
    """

    source: str
    workload: str
    size: str
    dtype: str
    gpu_type: str
    gpus: int
    field: str
    published: float
    recomputed: float
    difference_percent: float
    reason: str = UNEXPLAINED


class RowDispute(Value, frozen=True):
    """One printed value of a configuration row, and the value computed from the others (or used by the run).

    `reason` is the rule that the printed value violates, how it is computed, or the catalog's note on the row.
    """

    source: str
    workload: str
    recipe: str
    size: str
    dtype: str
    gpu_type: str
    gpus: int
    field: str
    published: Scalar
    recomputed: Scalar
    reason: str = UNEXPLAINED


class ExampleDispute(Value, frozen=True):
    """A wrong worked example. `field` is the disputed figure, `text` is the statement, if any.

    `kind` is what it contradicts: its own arithmetic, the table of the source, the peak of the GPU, the FLOPs formula
    or the configuration of the recipe. `reason` is the note of the reference file.
    """

    source: str
    workload: str
    kind: str
    field: str
    published: float
    recomputed: float
    difference_percent: float
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    text: str | None = None
    reason: str = UNEXPLAINED


class Audit(Value, frozen=True):
    """The result of an audit: the number of recomputed cells and all findings."""

    cells: int
    disputed: tuple[Disputed, ...] = ()
    rows: tuple[RowDispute, ...] = ()
    examples: tuple[ExampleDispute, ...] = ()


def difference_percent(published: float, recomputed: float) -> float:
    """The published figure relative to the recomputed one in percent (six digits); infinite if the latter is 0."""
    if recomputed == 0:
        return 0.0 if published == 0 else float("inf")
    return float(f"{100 * (published / recomputed - 1):.6g}")
