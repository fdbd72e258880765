"""Count the operations of masked attention as a rank does: a program for the framework's Python.

Prints one JSON object: name of the mask -> what `llmbx.entry.operations` wrote.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from llmbx_kit.entry import operations

TOKENS, HEADS, WIDTH, SAMPLES, WINDOW = 64, 4, 8, 3, 10
os.environ[operations.VARIABLE] = "1"

at = torch.arange(TOKENS)
apart = at[:, None] - at
window = (apart >= 0) & (apart < WINDOW)
masks: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"is_causal": True},
    "window": {"attn_mask": window},
    "added": {"attn_mask": torch.zeros(window.shape).masked_fill(~window, float("-inf"))},
}


def counted(**mask: Any) -> Any:
    """One layer of attention alone, forward and backward."""
    parts = [torch.randn(SAMPLES, HEADS, TOKENS, WIDTH, requires_grad=True) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        with operations.of_torch(Path(folder), SAMPLES):
            F.scaled_dot_product_attention(*parts, **mask).sum().backward()
        return json.loads((Path(folder) / operations.FILE).read_text())


print(json.dumps({name: counted(**mask) for name, mask in masks.items()}))
