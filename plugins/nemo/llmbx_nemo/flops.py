"""Model FLOPs of one sample, computed with the formula that the recipes print."""

from __future__ import annotations

from llmbx.api import Flops, ModelShape, RunSpec

FORMULA = "S(12Lh²(1+g/a+S/h)+18Lfhk+6Vh), version 1"
"""S tokens, L layers, hidden size h, g query groups, a heads, FFN size f, k experts per token, vocabulary size V.

The Llama 3.1 recipe on NeMo 2 uses the full convention (the whole attention matrix), the Grok-1 recipe the causal one.
"""


def of_run(spec: RunSpec) -> Flops:
    """Return the FLOPs of one sample of the run's model."""
    return compute(spec.model)


def compute(model: ModelShape) -> Flops:
    """Return the FLOPs of one sample (forward and backward pass) under both conventions.

    `parts` are the FLOPs of one token under the full convention. In a model that alternates dense and expert layers
    with one expert per token, `ffn_hidden_size` is the width that is active in every layer (Maverick: 16384 dense, or
    8192 routed + 8192 shared). A model that the formula does not describe (latent attention, windows, Mamba …) is
    summed over its layers.
    """
    return Flops.layerwise(model) if model.is_detailed else Flops.transformer(model, FORMULA)
