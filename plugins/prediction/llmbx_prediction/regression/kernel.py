"""How much the errors of two configurations have in common: the covariance of their log step times.

It is a sum of components. Each says that configurations which share something (a model, the dtype on one generation of
GPUs …) are wrong in the same direction, by its standard deviation (`scales`, in log seconds). Components of `terms` are
coefficients of the roofline: configurations share their error as far as they spend their time in the same term.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .features import Array, Features

LAYOUT_SCALE, SHAPE_SCALE, WIDE_SCALE = 2.0, 1.5, 2.5
"""Distances in doublings over which the smooth components fade."""
CELL_SCALE = 0.7
YEARS = {"stack over time": 1.5, "model over time": 0.7, "family over time": 0.7, "cell over time": 1.0}
"""Years between releases over which what they share fades."""

Component = Callable[[Features, Features], Array]


def common(a: Features, b: Features, *names: str) -> Array:
    """1 where all of these names agree, else 0."""
    agreement = np.ones((len(a.when), len(b.when)))
    for name in names:
        agreement *= a.names[name][:, None] == b.names[name][None, :]
    return agreement


def _terms(*names: str) -> Component:
    return lambda a, b: (a.shares @ b.shares.T) * common(a, b, *names)


def _same(*names: str) -> Component:
    return lambda a, b: common(a, b, *names)


def _fading(name: str, *names: str) -> Component:
    return lambda a, b: common(a, b, *names) * np.exp(-np.abs(a.when[:, None] - b.when[None, :]) / YEARS[name])


def smooth(a: Array, b: Array, scale: float) -> Array:
    """exp(-d²/2 scale²) of the distances of two sets of points."""
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2 * a @ b.T
    return np.asarray(np.exp(-np.maximum(squared, 0.0) / (2 * scale**2)))


def _cell(a: Features, b: Features) -> Array:
    return common(a, b, "model", "gpu", "dtype", "stack") * smooth(a.layout, b.layout, CELL_SCALE)


CELL_TIME = "cell over time"
COMPONENTS: Mapping[str, Component] = {
    "all": _same(),
    "terms": _terms(),
    "terms by GPU": _terms("gpu"),
    "terms by family": _terms("family"),
    "terms by dtype": _terms("dtype"),
    "terms by stack": _terms("stack"),
    "model": _same("model"),
    "dtype": _same("dtype"),
    "dtype by generation": _same("generation", "dtype"),
    "dtype by family": _same("family", "dtype"),
    "GPU by family": _same("family", "gpu"),
    "stack": _same("stack"),
    "task": _same("task"),
    "stack over time": _fading("stack over time", "stack"),
    "model over time": _fading("model over time", "model", "stack"),
    "family over time": _fading("family over time", "family", "stack"),
    "layout": lambda a, b: common(a, b, "stack") * smooth(a.layout, b.layout, LAYOUT_SCALE),
    "shape by generation": lambda a, b: common(a, b, "generation") * smooth(a.shape, b.shape, SHAPE_SCALE),
    "shape and layout": lambda a, b: smooth(a.shape, b.shape, 2.0) * smooth(a.layout, b.layout, WIDE_SCALE),
    "cell": _cell,
    CELL_TIME: lambda a, b: _cell(a, b) * _fading(CELL_TIME)(a, b),
}
"""The components by name."""
OF_TERMS = {"terms": (), "terms by GPU": ("gpu",), "terms by family": ("family",), "terms by dtype": ("dtype",),
            "terms by stack": ("stack",)}  # fmt: skip
"""The components that are coefficients of terms -> the names that configurations must share."""
NOISE = "noise"
"""Standard deviation of one figure beside what it shares with others."""


def covariance(a: Features, b: Features, scales: Mapping[str, float]) -> Array:
    """The covariance (n x m) of two sets of configurations, without noise."""
    total = np.zeros((len(a.when), len(b.when)))
    for name, component in COMPONENTS.items():
        total += scales[name] ** 2 * component(a, b)
    return total


def variances(a: Features, scales: Mapping[str, float]) -> Array:
    """The diagonal of `covariance(a, a)`."""
    squares = (a.shares**2).sum(axis=1)
    constant = sum(scales[name] ** 2 for name in COMPONENTS if name not in OF_TERMS)
    return np.asarray(constant + squares * sum(scales[name] ** 2 for name in OF_TERMS))
