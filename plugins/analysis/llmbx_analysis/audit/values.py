"""What an audit finds: published figures that the arithmetic does not give."""

from __future__ import annotations

from llmbx.model import Scalar, Value


class Disputed(Value, frozen=True):
    """One cell of a performance table. `mfu` is a fraction; `difference_percent` is published against recomputed.

    `explanation` is an assumption under which the arithmetic gives the published figure, None where none was found.
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
    explanation: str | None = None


class RowDispute(Value, frozen=True):
    """One printed letter or degree of a configuration row, and what follows from the others (or is run instead)."""

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
    explanation: str | None = None


class ExampleDispute(Value, frozen=True):
    """A worked example that does not hold. `field` is what is disputed, `text` the statement where there is one.

    `kind` says what it contradicts: its own arithmetic, the source's table, the peak of the GPU, the FLOPs formula or
    the recipe's configuration.
    """

    source: str
    workload: str
    kind: str
    field: str
    published: float
    recomputed: float | None
    difference_percent: float | None
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    text: str | None = None
    explanation: str | None = None


class Audit(Value, frozen=True):
    """How many cells were recomputed, and everything that disagrees."""

    cells: int
    disputed: tuple[Disputed, ...] = ()
    rows: tuple[RowDispute, ...] = ()
    examples: tuple[ExampleDispute, ...] = ()


def difference_percent(published: float, recomputed: float) -> float:
    """By how many percent the published figure is above the recomputed one (six digits); infinite where that is 0."""
    if recomputed == 0:
        return 0.0 if published == 0 else float("inf")
    return float(f"{100 * (published / recomputed - 1):.6g}")
