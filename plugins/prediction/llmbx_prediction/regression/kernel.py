"""How much the errors of two configurations have in common: the covariance of their log step times.

It is a sum of components. Each says that configurations which share something (a model, the dtype on one generation of
GPUs …) are wrong in the same direction, by its standard deviation (`scales`, in log seconds). Components of `terms` are
coefficients of the roofline: configurations share their error as far as they spend their time in the same term.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from .features import Array, Features

LAYOUT_SCALE, SHAPE_SCALE, WIDE_SCALE = 2.0, 1.5, 2.5
"""Distances in doublings over which the smooth components fade."""
CELL_SCALE = 0.7
YEARS = {
    "stack over time": 1.5,
    "model over time": 0.7,
    "family over time": 0.7,
    "experts' dtype over time": 0.7,
    "cell over time": 1.0,
}
"""Years between releases over which what they share fades."""


class Pairs:
    """All pairs of configurations of two sets. What several components need is computed once."""

    def __init__(self, a: Features, b: Features) -> None:
        self.a, self.b = a, b
        self._agree: dict[str, NDArray[np.bool_]] = {}
        self._squares: dict[str, Array] = {}

    def common(self, *names: str) -> Array:
        """1 where all of these names agree, else 0."""
        agreement = np.ones((len(self.a.when), len(self.b.when)))
        for name in names:
            if name not in self._agree:
                self._agree[name] = _agree(self.a.names[name], self.b.names[name])
            agreement *= self._agree[name]
        return agreement

    @functools.cached_property
    def terms(self) -> Array:
        """How far both spend their time in the same terms."""
        return np.asarray(self.a.shares @ self.b.shares.T)

    @functools.cached_property
    def experts(self) -> Array:
        """1 where both are models with experts, else 0."""
        return np.outer(self.a.experts, self.b.experts)

    @functools.cached_property
    def dense(self) -> Array:
        """1 where both are dense models, else 0."""
        return np.outer(1 - self.a.experts, 1 - self.b.experts)

    @functools.cached_property
    def years(self) -> Array:
        """The years between their dates."""
        return np.asarray(np.abs(self.a.when[:, None] - self.b.when[None, :]))

    def layout(self, scale: float) -> Array:
        """exp(-d²/2 scale²) of the distances of their layouts."""
        return self._smooth("layout", self.a.layout, self.b.layout, scale)

    def shape(self, scale: float) -> Array:
        """The same of the shapes of their models."""
        return self._smooth("shape", self.a.shape, self.b.shape, scale)

    def _smooth(self, name: str, a: Array, b: Array, scale: float) -> Array:
        if name not in self._squares:
            squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2 * a @ b.T
            self._squares[name] = np.maximum(squared, 0.0)
        return np.asarray(np.exp(-self._squares[name] / (2 * scale**2)))


def _agree(a: NDArray[np.str_], b: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Where names are the same; their numbers are quicker to compare."""
    _, numbers = np.unique(np.concatenate([a, b]), return_inverse=True)
    return np.asarray(numbers[: len(a), None] == numbers[None, len(a) :])


Component = Callable[[Pairs], Array]


def _terms(*names: str) -> Component:
    return lambda pairs: pairs.terms * pairs.common(*names)


def _same(*names: str) -> Component:
    return lambda pairs: pairs.common(*names)


def _fading(name: str, *names: str) -> Component:
    return lambda pairs: pairs.common(*names) * np.exp(-pairs.years / YEARS[name])


def _cell(pairs: Pairs) -> Array:
    return pairs.common("model", "gpu", "dtype", "stack") * pairs.layout(CELL_SCALE)


CELL_TIME, DENSE_DTYPE = "cell over time", "dense models' dtype"
EXPERTS_TERMS, EXPERTS_DTYPE = "experts' terms by stack", "experts' dtype over time"
EXPERTS_GPU = "experts' dtype by GPU"
"""Components of models with experts alone, whose kernels differ more from stack to stack, and change faster; what a
GPU type does to their products in one dtype, all stacks have in common."""
COMPONENTS: Mapping[str, Component] = {
    "all": _same(),
    "terms": _terms(),
    "terms by GPU": _terms("gpu"),
    "terms by family": _terms("family"),
    "terms by dtype": _terms("dtype"),
    "terms by engine": _terms("engine"),
    "terms by stack": _terms("stack"),
    "model": _same("model"),
    "dtype": _same("dtype"),
    "dtype by generation": _same("generation", "dtype"),
    DENSE_DTYPE: lambda pairs: pairs.dense * pairs.common("dtype"),
    "GPU by family": _same("family", "gpu"),
    "engine": _same("engine"),
    "stack": _same("stack"),
    "task": _same("task"),
    "stack over time": _fading("stack over time", "stack"),
    "model over time": _fading("model over time", "model", "stack"),
    "family over time": _fading("family over time", "family", "stack"),
    EXPERTS_TERMS: lambda pairs: pairs.experts * pairs.terms * pairs.common("stack"),
    EXPERTS_DTYPE: lambda pairs: pairs.experts * _fading(EXPERTS_DTYPE, "stack", "dtype")(pairs),
    EXPERTS_GPU: lambda pairs: pairs.experts * pairs.common("gpu", "dtype"),
    "layout": lambda pairs: pairs.common("stack") * pairs.layout(LAYOUT_SCALE),
    "shape by generation": lambda pairs: pairs.common("generation") * pairs.shape(SHAPE_SCALE),
    "shape and layout": lambda pairs: pairs.shape(2.0) * pairs.layout(WIDE_SCALE),
    "cell": _cell,
    CELL_TIME: lambda pairs: _cell(pairs) * _fading(CELL_TIME)(pairs),
}
"""The components by name."""
OF_TERMS = {"terms": (), "terms by GPU": ("gpu",), "terms by family": ("family",), "terms by dtype": ("dtype",),
            "terms by engine": ("engine",), "terms by stack": ("stack",)}  # fmt: skip
"""The components that are coefficients of terms -> the names that configurations must share."""
NOISE = "noise"
"""Standard deviation of one figure beside what it shares with others."""


def covariance(a: Features, b: Features, scales: Mapping[str, float]) -> Array:
    """The covariance (n x m) of two sets of configurations, without noise."""
    total, pairs = np.zeros((len(a.when), len(b.when))), Pairs(a, b)
    for name, component in COMPONENTS.items():
        total += scales[name] ** 2 * component(pairs)
    return total


def variances(a: Features, scales: Mapping[str, float]) -> Array:
    """The diagonal of `covariance(a, a)`."""
    squares = (a.shares**2).sum(axis=1)
    whole = {
        **dict.fromkeys(OF_TERMS, squares),
        EXPERTS_TERMS: squares * a.experts,
        EXPERTS_DTYPE: a.experts,
        EXPERTS_GPU: a.experts,
        DENSE_DTYPE: 1 - a.experts,
    }
    return np.asarray(sum(scales[name] ** 2 * whole.get(name, np.ones(len(a.when))) for name in COMPONENTS))
