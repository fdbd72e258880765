"""Configurations as arrays: the time of each term, names of what they share, and the degrees of parallelism."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..atlas.near import generation
from ..case import Case
from ..cost.roofline import NAMES, ideal

Array = NDArray[np.float64]
RECOMPUTED = {"none": 0.0, "selective": 1.0, "full": 2.0}


@dataclasses.dataclass(frozen=True)
class Features:
    """Arrays of n configurations.

    `seconds` (n x terms) are the terms at rated speed times their coefficients, `names` what configurations can have in
    common, `experts` 1 for a model with experts, else 0, `when` the dates in years, `layout` degrees of parallelism and
    lengths, `shape` widths of the model, both in doublings.
    """

    seconds: Array
    names: Mapping[str, NDArray[np.str_]]
    experts: Array
    when: Array
    layout: Array
    shape: Array

    def part(self, indices: Sequence[int]) -> Features:
        """Those of some of the configurations."""
        kept = list(indices)
        return Features(
            seconds=self.seconds[kept],
            names={name: values[kept] for name, values in self.names.items()},
            experts=self.experts[kept],
            when=self.when[kept],
            layout=self.layout[kept],
            shape=self.shape[kept],
        )

    @property
    def total(self) -> Array:
        """Seconds of one step by the terms alone."""
        return np.asarray(self.seconds.sum(axis=1))

    @property
    def shares(self) -> Array:
        """The share of each term in the step."""
        return self.seconds / self.total[:, None]


def features(cases: Sequence[Case], coefficients: Mapping[str, float]) -> Features:
    """Describe configurations. `coefficients` multiply the terms at rated speed."""
    factors = np.array([coefficients[name] for name in NAMES])
    times = np.array([[terms[name] for name in NAMES] for terms in map(ideal, cases)]).reshape(len(cases), len(NAMES))
    return Features(
        seconds=times * factors, names={name: np.array(terms) for name, terms in _names(cases).items()},
        experts=np.array([float(case.model.family != "dense") for case in cases]),
        when=np.array([case.when for case in cases], dtype=float),
        layout=np.array([_layout(case) for case in cases]).reshape(len(cases), -1),
        shape=np.array([_shape(case) for case in cases]).reshape(len(cases), -1),
    )  # fmt: skip


def _names(cases: Sequence[Case]) -> dict[str, list[str]]:
    return {
        "model": [case.model.name for case in cases], "family": [case.model.family for case in cases],
        "gpu": [case.gpu_type for case in cases], "generation": [generation(case.gpu_type) for case in cases],
        "dtype": [case.dtype for case in cases], "task": [case.task for case in cases],
        "engine": [_engine(case) for case in cases], "stack": [_stack(case) for case in cases],
    }  # fmt: skip


def _stack(case: Case) -> str:
    return case.stack + ", token drop" * case.token_drop


def _engine(case: Case) -> str:
    """The engine of dense models; kernels and dispatchers of models with experts are those of their stack."""
    return case.engine if case.model.family == "dense" else _stack(case)


def _doublings(value: float) -> float:
    return math.log2(max(value, 1e-3))


def _layout(case: Case) -> list[float]:
    """Each in the unit in which a difference of 1 makes configurations differ noticeably."""
    d = _doublings
    return [d(case.tp), d(case.pp), d(case.cp), d(case.ep) / 2, d(case.vp) / 2, d(case.mbs), d(case.gpus) / 4,
            d(case.seq) / 2, 2.0 * case.fsdp, RECOMPUTED[case.recompute], d(case.accumulation) / 3,
            d(case.model.layers)]  # fmt: skip


def _shape(case: Case) -> list[float]:
    model, d = case.model, _doublings
    width = max(1, model.moe_ffn or model.ffn)
    return [d(model.hidden), d(width) / 1.5, d(max(1, model.experts)) / 3, d(case.mbs * case.seq) / 2]
