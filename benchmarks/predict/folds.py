"""Groups of figures that are left out together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from llmbx_prediction.atlas.row import Row
from llmbx_prediction.case import Case

Used = Sequence[tuple[Row, Case, float]]
FOLDS = ("model and GPU", "release", "model", "scale", "GPU")


def groups(used: Used, name: str) -> list[Hashable]:
    """The group of each figure. With `scale` all scales of a series but its smallest are left out."""
    smallest: dict[Hashable, int] = {}
    for row, case, _ in used:
        key = series(row, case)
        smallest[key] = min(smallest.get(key, row.gpus), row.gpus)
    keys = {
        "model and GPU": lambda row, case: (row.model, row.gpu_type),
        "release": lambda row, case: (row.source, row.release),
        "model": lambda row, case: row.model,
        "GPU": lambda row, case: row.gpu_type,
        "scale": lambda row, case: (*series(row, case), row.gpus > smallest[series(row, case)]),
    }
    return [keys[name](row, case) for row, case, _ in used]


def series(row: Row, case: Case) -> tuple[Hashable, ...]:
    """A weak-scaling series: the same work for each GPU in one table."""
    return row.source, row.release, row.model, row.layers, row.gpu_type, row.dtype, row.stack, case.seq
