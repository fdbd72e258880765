"""Model FLOPs of one sample, computed with the formula that the MaxText Llama 2 recipe prints."""

from __future__ import annotations

from llmbx.api import Flops, ModelShape, RunSpec

FORMULA = "S(12Lh²(1+g/a+S/h)+18Lfhk+6LhE+6Vh), version 1"
"""S tokens, L layers, hidden size h, g query groups, a heads, FFN size f, k of E experts per token, vocabulary size V.

The recipe, and MaxText until 2025-07, use the full convention (the whole attention matrix), newer MaxText the causal
one. 6LhE is the router of a mixture of experts, which MaxText counts; a dense model has no router.
"""


def of_run(spec: RunSpec) -> Flops:
    """Return the FLOPs of one sample of the run's model."""
    return compute(spec.model)


def compute(model: ModelShape) -> Flops:
    """Return the FLOPs of one sample (forward and backward pass) under both conventions.

    `parts` are the FLOPs of one token under the full convention.
    """
    if model.is_detailed:
        return Flops.layerwise(model)
    if not model.experts:
        return Flops.transformer(model, FORMULA)
    router = 6.0 * model.layers * model.hidden_size * model.experts
    return Flops.transformer(model, FORMULA, width=model.moe_ffn_hidden_size, extra={"router": router})
