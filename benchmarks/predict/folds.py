"""Groups of figures that are left out together, and what the rest predicts for them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from llmbx_prediction.atlas.row import Row
from llmbx_prediction.case import Case
from llmbx_prediction.regression.posterior import Posterior
from llmbx_prediction.regression.shipped import LEVEL, familiarity

Used = Sequence[tuple[Row, Case, float]]
FOLDS = ("model and GPU", "release", "model", "scale", "GPU")
NARROWEST = 1.2
"""The narrowest interval in standard deviations."""


class Error(NamedTuple):
    """The error of one figure that was left out: its index, the size in standard deviations, and what was known."""

    index: int
    size: float
    known: str


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
        "family": lambda row, case: case.model.family,
        "stack": lambda row, case: row.stack,
        "organization": lambda row, case: row.organization,
        "scale": lambda row, case: (*series(row, case), row.gpus > smallest[series(row, case)]),
    }
    return [keys[name](row, case) for row, case, _ in used]


def series(row: Row, case: Case) -> tuple[Hashable, ...]:
    """A weak-scaling series: the same work for each GPU in one table."""
    return row.source, row.release, row.model, row.layers, row.gpu_type, row.dtype, row.stack, case.seq


def left_out(
    used: Used, keys: Sequence[Hashable], wanted: Sequence[bool], coefficients: Mapping[str, float],
    scales: Mapping[str, float],
) -> dict[int, tuple[float, float, str]]:  # fmt: skip
    """What the figures of all other groups predict for each wanted one: index -> (seconds, deviation, what is known).

    The prediction is calibrated again for each group, outliers included.
    """
    members: dict[Hashable, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        if wanted[index]:
            members[key].append(index)
    found = {}
    for key, asked in members.items():
        rest = [item for index, item in enumerate(used) if keys[index] != key]
        posterior = Posterior([c for _, c, _ in rest], [t for *_, t in rest], coefficients, scales)
        means, deviations = posterior.predict([used[index][1] for index in asked])
        for index, mean, deviation in zip(asked, means, deviations, strict=True):
            known = familiarity(used[index][1], (case for _, case, _ in rest))
            found[index] = float(mean), float(deviation), known
    return found


def left_out_errors(
    used: Used, keys: Sequence[Hashable], coefficients: Mapping[str, float], scales: Mapping[str, float],
    wanted: Sequence[bool] | None = None,
) -> list[Error]:  # fmt: skip
    """The error of every (wanted) figure by the figures of all other groups."""
    found = left_out(used, keys, wanted or [True] * len(used), coefficients, scales)
    return [Error(index, abs(math.log(mean / used[index][2])) / deviation, known)
            for index, (mean, deviation, known) in found.items()]  # fmt: skip


def factor(sizes: Sequence[float]) -> float:
    """The factor of an interval: the quantile of errors in standard deviations at the level of the intervals."""
    return max(NARROWEST, float(np.quantile(sizes, LEVEL, method="inverted_cdf")))
