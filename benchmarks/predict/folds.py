"""Groups of figures that are left out together, and what the rest predicts for them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from llmbx_prediction.atlas.row import Row
from llmbx_prediction.case import Case
from llmbx_prediction.regression.features import features
from llmbx_prediction.regression.kernel import covariance
from llmbx_prediction.regression.posterior import Posterior
from llmbx_prediction.regression.shipped import GPU, KINDS, KNOWN, LEVEL, STACK, UNSEEN, familiarity, kind

Used = Sequence[tuple[Row, Case, float]]
FOLDS = ("model and GPU", "release", "model", "scale", "GPU", "stack", "organization")
NARROWEST = 0.8
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
    described = features([case for _, case, _ in used], coefficients)
    shared = covariance(described, described, scales)
    for key, asked in members.items():
        kept = [index for index in range(len(used)) if keys[index] != key]
        rest = [used[index] for index in kept]
        posterior = Posterior(
            [case for _, case, _ in rest],
            [seconds for *_, seconds in rest],
            coefficients,
            scales,
            described.part(kept),
            shared[np.ix_(kept, kept)],
        )
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


LEAST = 9
"""Errors below which no quantile at the level of the intervals can be told: 9 of 10 need a tenth that is larger."""

ENOUGH = 10
"""Models and releases of a stack whose errors count as much as those of all stacks."""


def factor_of_groups(sizes: Mapping[Hashable, Sequence[float]], count: int) -> float | None:
    """The factor of an interval for a group without any figure; None for too few errors.

    Each group counts as much as another. `count` is the number of errors that are seen many times each: a further one
    may be worse than all (split conformal prediction).
    """
    if count < LEAST:
        return None
    weighted = sorted((size, 1 / len(group)) for group in sizes.values() for size in group)
    total, level = 0.0, LEVEL * len(sizes) * (count + 1) / count - 1e-9
    for size, weight in weighted:
        total += weight
        if total >= level:
            return max(NARROWEST, size)
    return None


def factor(sizes: Sequence[float]) -> float:
    """The factor of an interval: the quantile of errors in standard deviations at the level of the intervals."""
    return max(NARROWEST, float(np.quantile(sizes, LEVEL, method="inverted_cdf")))


def all_errors(used: Used, coefficients: Mapping[str, float], scales: Mapping[str, float]) -> list[tuple[str, Error]]:
    """The errors of all figures in all folds, with the name of the fold."""
    return [
        (name, error) for name in FOLDS for error in left_out_errors(used, groups(used, name), coefficients, scales)
    ]


def widths(used: Used, errors: Sequence[tuple[str, Error]]) -> dict[str, float]:
    """The factors of the intervals by what is known, from these errors.

    Those of models with figures, of GPU types and of stacks are quantiles over all figures; those of models without any
    come from the models of their kind that were left out whole. Factors of stacks and of models are missing for a kind
    with too few. The figures of a model in one release share their error, those of its releases do not (kernels
    change). A model of unknown shape is not one of them: it has no prediction without a figure.
    """
    sizes: dict[str, list[float]] = defaultdict(list)
    unseen: dict[str, dict[Hashable, list[float]]] = {each: defaultdict(list) for each in KINDS}
    releases: dict[str, set[Hashable]] = {each: set() for each in KINDS}
    stacks: dict[str, set[str]] = {each: set() for each in KINDS}
    for name, error in errors:
        sizes[error.known].append(error.size)
        row, case, _ = used[error.index]
        stacks[kind(case)].add(case.stack)
        if name == "model" and case.model.has_shape:
            unseen[kind(case)][case.model.name].append(error.size)
            releases[kind(case)].add((case.model.name, row.source, row.release))
    names = [f"{each}: {known}" for each in KINDS for known in (*KNOWN, GPU)]
    names += [f"{each}: {STACK}" for each in KINDS if len(stacks[each]) >= LEAST]
    factors = {name: factor(sizes[name]) for name in names if sizes[name]}
    of_kinds = {f"{each}: {UNSEEN}": factor_of_groups(unseen[each], len(releases[each])) for each in KINDS}
    return factors | {name: value for name, value in of_kinds.items() if value is not None}


def of_stacks(used: Used, errors: Sequence[tuple[str, Error]], factors: Mapping[str, float]) -> dict[str, float]:
    """What multiplies the factors for the figures of each stack, from the same errors.

    It is the quantile of its errors over the half widths of their intervals. A stack with few models and releases tells
    little of it: so far the logarithm is shrunk to that of all stacks, 0.
    """
    sizes: dict[str, list[float]] = defaultdict(list)
    tables: dict[str, set[Hashable]] = defaultdict(set)
    for _, error in errors:
        row, case, _ = used[error.index]
        if error.known in factors and STACK not in error.known:
            sizes[case.stack].append(error.size / factors[error.known])
            tables[case.stack].add((row.model, row.source, row.release))
    return {
        stack: float(np.quantile(ratios, LEVEL)) ** (len(tables[stack]) / (len(tables[stack]) + ENOUGH))
        for stack, ratios in sorted(sizes.items())
    }
