"""Attention through torch's `scaled_dot_product_attention`, in place of Megatron-Core's own, which keeps every score.

Transformer Engine brings its own attention. Where it is not installed, Megatron-Core multiplies out all S x S scores
of every head: at 8,192 tokens and 64 heads these are 8 GiB in BF16. Torch's kernels (cuDNN's, and its flash
attention) hold a tile of them at a time. They take the causal mask as a word, and grouped queries as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from megatron.core.transformer.dot_product_attention import DotProductAttention
from megatron.core.transformer.enums import AttnMaskType
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

KERNELS = {
    "cudnn": (SDPBackend.CUDNN_ATTENTION,),
    "flash": (SDPBackend.FLASH_ATTENTION,),
    "sdpa": (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION),
}
"""The kernels that each choice admits, the preferred one first. None of them keeps all scores: where none can do what
is asked, the run fails and does not turn silently into another one."""

WITHOUT_CUDA = (SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH)
"""For a CPU, where the module is tested: one that is not there, and the one that can do everything."""


class SdpaAttention(DotProductAttention):
    """Causal self-attention without dropout, with the arguments of Megatron-Core's `DotProductAttention`."""

    choice = "sdpa"

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        attn_mask_type: Any = None,
        attention_bias: torch.Tensor | None = None,
        packed_seq_params: Any = None,
    ) -> torch.Tensor:
        """[S, B, heads, width] queries and [S, B, groups, width] keys and values to [S, B, heads x width].

        A causal mask is what the data of a benchmark have (no padding, documents not separated), so that the mask
        itself is not looked at.
        """
        if (attn_mask_type or self.attn_mask_type) != AttnMaskType.causal or packed_seq_params is not None:
            raise ValueError("attention through torch is causal, over whole sequences")
        kernels = KERNELS[self.choice] if query.is_cuda else WITHOUT_CUDA
        kernel = working(kernels, tuple(query.shape), key.size(2), query.dtype, query.device)
        context = attend(kernel, query, key, value, self.softmax_scale)
        return context.permute(2, 0, 1, 3).reshape(query.size(0), query.size(1), -1)


def attend(
    kernel: SDPBackend, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """Causal attention by `kernel`: [S, B, heads, width] queries to [B, heads, S, width]."""
    with sdpa_kernel(kernel):
        return scaled_dot_product_attention(
            *(tensor.permute(1, 2, 0, 3) for tensor in (query, key, value)),
            is_causal=True,
            scale=scale,
            enable_gqa=query.size(2) != key.size(2),
        )


@functools.cache
def working(
    kernels: tuple[SDPBackend, ...], shape: tuple[int, ...], groups: int, dtype: torch.dtype, device: torch.device
) -> SDPBackend:
    """The first of `kernels` that does a forward and a backward pass with these shapes, and says which it is.

    Tried once for each shape, since a kernel may take the forward pass and refuse the backward one.
    """
    refused = []
    for kernel in kernels:
        query, key, value = (
            torch.zeros(*shape[:2], heads, shape[3], dtype=dtype, device=device, requires_grad=True)
            for heads in (shape[2], groups, groups)
        )
        try:
            with torch.enable_grad():
                attend(kernel, query, key, value, 1.0).sum().backward()
        except RuntimeError as error:
            refused.append(f"{kernel.name}: {str(error).splitlines()[0]}")
            continue
        print("; ".join(["llmbx: attention through torch is " + kernel.name, *refused]), flush=True)
        return kernel
    raise RuntimeError(f"torch has no attention for {shape} with {groups} groups: {'; '.join(refused)}")


def module(choice: str) -> type:
    """The core-attention module for one of `KERNELS`."""
    return type(f"SdpaAttention_{choice}", (SdpaAttention,), {"choice": choice})


def in_layers(spec: Callable[..., Any], choice: str) -> Callable[..., Any]:
    """`spec`, a maker of layer specifications, with the core attention of every layer replaced."""

    def changed(config: Any, vp_stage: int | None = None) -> Any:
        found = spec(config, vp_stage=vp_stage)
        for layer in getattr(found, "layer_specs", [found]):
            layer.submodules.self_attention.submodules.core_attention = module(choice)
        return found

    return changed
