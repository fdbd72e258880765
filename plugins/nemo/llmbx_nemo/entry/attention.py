"""Attention with torch's `scaled_dot_product_attention`, in place of Megatron-Core's unfused attention.

Transformer Engine has its own attention. Without it, Megatron-Core computes the S x S scores of every head at once:
with 8,192 tokens and 64 heads these are 8 GiB in BF16. Torch's kernels (cuDNN and flash attention) hold only one tile
of them at a time. They support a causal mask (`is_causal`) and grouped queries (`enable_gqa`).
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
"""The kernels that each choice allows, the preferred one first. None of them stores all scores. If none of them
supports the shapes, the run fails instead of silently using another kernel."""

WITHOUT_CUDA = (SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH)
"""For a CPU, on which the module is tested: a kernel that is unavailable there, and one that supports everything."""


class SdpaAttention(DotProductAttention):
    """Causal self-attention without dropout, with the interface of Megatron-Core's `DotProductAttention`."""

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
        """Return the attention output, [S, B, heads x width].

        `query` is [S, B, heads, width], `key` and `value` are [S, B, groups, width]. The data of a benchmark need only
        a causal mask (no padding, documents not separated), so the values of `attention_mask` are ignored. Raises
        `ValueError` for another mask type or for packed sequences.
        """
        if (attn_mask_type or self.attn_mask_type) != AttnMaskType.causal or packed_seq_params is not None:
            raise ValueError("torch attention supports only causal masks over unpacked sequences")
        kernels = KERNELS[self.choice] if query.is_cuda else WITHOUT_CUDA
        kernel = select_kernel(kernels, tuple(query.shape), key.size(2), query.dtype, query.device)
        context = attend(kernel, query, key, value, self.softmax_scale)
        return context.permute(2, 0, 1, 3).reshape(query.size(0), query.size(1), -1)


def attend(
    kernel: SDPBackend, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """Compute causal attention with `kernel`: from queries [S, B, heads, width] to [B, heads, S, width]."""
    with sdpa_kernel(kernel):
        return scaled_dot_product_attention(
            *(tensor.permute(1, 2, 0, 3) for tensor in (query, key, value)),
            is_causal=True,
            scale=scale,
            enable_gqa=query.size(2) != key.size(2),
        )


@functools.cache
def select_kernel(
    kernels: tuple[SDPBackend, ...], shape: tuple[int, ...], groups: int, dtype: torch.dtype, device: torch.device
) -> SDPBackend:
    """Return the first of `kernels` that runs a forward and a backward pass with these shapes, and print its name.

    A kernel may support the forward pass but not the backward pass, so both are tried, once for each shape. Raises
    `RuntimeError` if no kernel works.
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
        print("; ".join(["llmbx: torch attention kernel: " + kernel.name, *refused]), flush=True)
        return kernel
    raise RuntimeError(f"no torch attention kernel supports {shape} with {groups} groups: {'; '.join(refused)}")


def module(choice: str) -> type:
    """Return the core-attention class for a key of `KERNELS`."""
    return type(f"SdpaAttention_{choice}", (SdpaAttention,), {"choice": choice})


def in_layers(spec: Callable[..., Any], choice: str) -> Callable[..., Any]:
    """Wrap `spec`, a function that makes layer specifications, to replace the core attention of every layer."""

    def replaced(config: Any, vp_stage: int | None = None) -> Any:
        layers = spec(config, vp_stage=vp_stage)
        for layer in getattr(layers, "layer_specs", [layers]):
            layer.submodules.self_attention.submodules.core_attention = module(choice)
        return layers

    return replaced
