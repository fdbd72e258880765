"""Compares attention through torch with Megatron-Core's own on the same random data: outputs and gradients, on a CPU.

Prints one JSON object: for each precision and number of heads and groups the largest differences, relative to the
largest value, of the output and of the gradients of queries, keys and values.
"""

from __future__ import annotations

import json
import os
from typing import Any

os.environ |= {"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}

from llmbx_nemo.entry import bridge

bridge.prepare()

import torch  # noqa: E402
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.transformer.dot_product_attention import DotProductAttention  # noqa: E402
from megatron.core.transformer.enums import AttnMaskType  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

from llmbx_nemo.entry import attention  # noqa: E402

SEQUENCE, BATCH, WIDTH = 48, 2, 32


def results(module: type, heads: int, groups: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Output, and gradients of queries, keys and values."""
    config = TransformerConfig(
        num_layers=1, hidden_size=heads * WIDTH, num_attention_heads=heads, num_query_groups=groups,
        attention_dropout=0.0, bf16=dtype is torch.bfloat16,
    )  # fmt: skip
    core: Any = module(config, layer_number=1, attn_mask_type=AttnMaskType.causal, attention_type="self")
    torch.manual_seed(7)
    inputs = [torch.randn(SEQUENCE, BATCH, n, WIDTH).to(dtype).requires_grad_() for n in (heads, groups, groups)]
    context = core(*inputs, attention_mask=None)
    context.backward(torch.randn(context.shape).to(dtype))
    return [context, *(tensor.grad for tensor in inputs)]


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference over the largest value; shapes must agree, and nothing may be NaN."""
    assert ours.shape == theirs.shape
    return ((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max()).item()


def main() -> None:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    found = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for heads, groups in ((8, 2), (4, 4)):
            pair = [results(kind, heads, groups, dtype) for kind in (attention.module("sdpa"), DotProductAttention)]
            found[f"{name} {heads}/{groups}"] = [difference(*both) for both in zip(*pair, strict=True)]
    print(json.dumps(found))


main()
