"""The terms of published figures, and the formulas that compute the figures from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from llmbx.api import (
    Convention,
    Flops,
    ModelShape,
    Reference,
    Value,
)

from ..formulas import days_per_1t_tokens, tflops_per_gpu

Formula = Callable[[ModelShape], Flops | None]
"""Computes the model FLOPs of one sample for a model shape."""

CELLS = ("tokens_per_s", "mfu", "days_per_1t_tokens", "tflops_per_gpu")
"""Columns of a performance table that are computed from its step time."""


class Terms(Value, frozen=True):
    """Sequence length (tokens), batch size (samples), step time (s), GPUs, shape, convention, peak (TFLOP/s per GPU).

    `flops` (per sample) is used if there is no shape or no formula. None means unknown.
    """

    gpus: int
    sequence_length: int | None = None
    batch: int | None = None
    step_time_s: float | None = None
    model: ModelShape | None = None
    convention: Convention = "full"
    flops: float | None = None
    peak_tflops: float | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """One published row with the terms of its recipe. `window` is the measurement window of the recipe."""

    workload: str
    reference: Reference
    terms: Terms
    formula: Formula
    window: tuple[int, int] | None = None


def model_flops(terms: Terms, formula: Formula) -> float | None:
    """FLOPs of one sample by the formula and convention, else `terms.flops`."""
    computed = formula(terms.model) if terms.model is not None else None
    return computed.by(terms.convention) if computed is not None else terms.flops


def compute(field: str, terms: Terms, formula: Formula) -> float | None:
    """Compute a figure from the terms; None if a term that it needs is unknown."""
    if field == "model_flops":
        return model_flops(terms, formula)
    if not terms.batch or not terms.step_time_s:
        return None
    if field in ("tokens_per_s", "days_per_1t_tokens"):
        if not terms.sequence_length:
            return None
        rate = terms.sequence_length * terms.batch / terms.step_time_s
        return rate if field == "tokens_per_s" else days_per_1t_tokens(rate)
    flops = model_flops(terms, formula)
    if flops is None or (field == "mfu" and not terms.peak_tflops):
        return None
    tflops = tflops_per_gpu(flops, terms.batch, terms.step_time_s, terms.gpus)
    return tflops / terms.peak_tflops if field == "mfu" and terms.peak_tflops else tflops
