"""Model FLOPs of one sample, by the formula that the recipes print."""

from __future__ import annotations

from llmbx.model import ModelShape
from llmbx.model.flops import Flops, transformer

FORMULA = "S(12Lh²(1+g/a+S/h)+18Lfhk+6Vh), version 1"
"""S tokens, L layers, hidden size h, g query groups, a heads, FFN f, k experts a token, vocabulary V.

The Llama 3.1 recipe on NeMo 2 counts it in full, the Grok-1 recipe causally.
"""


def compute(model: ModelShape) -> Flops:
    """FLOPs of one sample (forward and backward) under both conventions; `parts` are those of one token, in full.

    `ffn_hidden_size` is the width active in every layer of a model that alternates dense and expert layers (Maverick:
    16384 dense, or 8192 routed + 8192 shared), with one expert a token.
    """
    return transformer(model, FORMULA)
