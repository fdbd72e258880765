"""Settings and patches, in addition to the CPU shims, that let NeMo 2 train a mini without CUDA.

Tested with NeMo 2.2.1, 2.3.0 and 2.3.1 on Megatron-Core 0.11 and 0.12. The patches change no arithmetic.
"""

from __future__ import annotations

import functools
from typing import Any

from llmbx_nemo.entry.execution import Fields, Spec

OVERLAP = "MegatronCommOverlapCallback"
"""The callback that overlaps communication with computation. It needs CUDA."""

KERNELS: Fields = {
    "apply_rope_fusion": False,
    "bias_activation_fusion": False,
    "bias_dropout_fusion": False,
    "cross_entropy_fusion_impl": "native",
    "cross_entropy_loss_fusion": False,
    "gradient_accumulation_fusion": False,
    "masked_softmax_fusion": False,
    "moe_grouped_gemm": False,
    "moe_permute_fusion": False,
    "moe_shared_expert_overlap": False,
    "persist_layer_norm": False,
}
"""Fields of the model configuration that switch all fused kernels off."""


def fields(spec: Spec) -> Fields:
    """Return the recipe's fields that differ on a CPU. A model field that the version lacks has no effect there."""
    changed: Fields = {
        "trainer.accelerator": "cpu",
        "trainer.strategy.sequence_parallel": False,
        "trainer.strategy.ddp.overlap_grad_reduce": False,
        "trainer.strategy.ddp.overlap_param_gather": False,
        "trainer.strategy.ddp.average_in_collective": False,
        "data.num_workers": 0,
        "data.pin_memory": False,
        "data.create_attention_mask": True,
        "optim.config.use_precision_aware_optimizer": False,
        # with gloo and the distributed optimizer, the second step hangs in the reduction of the gradient norm
        "optim.config.use_distributed_optimizer": False,
        **{f"model.config.{name}": value for name, value in KERNELS.items()},
    }
    if not spec["architecture"].get("no_rope_every"):
        changed["model.config.transformer_layer_spec"] = local_layers
    return changed


def local_layers(config: Any) -> Any:
    """Return Megatron-Core's own layers, dense or with experts depending on the configuration."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec

    return get_gpt_decoder_block_spec(config, use_transformer_engine=False)


def patch() -> None:
    """Apply the patches. Call it after NeMo has been imported."""
    from llmbx_nemo.entry import cpu_shims

    cpu_shims.patch_core()
    _device()
    _optimizer()
    _loaded_tensors()
    _maverick()


def _device() -> None:
    """Report one CUDA device: NeMo seeds Megatron's random states only if there is one."""
    import torch

    torch.cuda.device_count = lambda: 1


def _optimizer() -> None:
    """Skip a quantization that needs Transformer Engine: Megatron-Core 0.12 calls it even without FP8 parameters."""
    from megatron.core.optimizer import distrib_optimizer

    quantize = getattr(distrib_optimizer, "quantize_param_shard", None)
    if quantize is None:
        return

    @functools.wraps(quantize)
    def quantize_if_any(parameters: Any, *rest: Any) -> None:
        if parameters:
            quantize(parameters, *rest)

    distrib_optimizer.quantize_param_shard = quantize_if_any


def _loaded_tensors() -> None:
    """Leave loaded tensors on the CPU: NeMo 2.2 moves them to a CUDA device, which must be initialized."""
    from nemo.lightning.io import pl

    if hasattr(pl, "_fix_tensors_device"):
        pl._fix_tensors_device = lambda checkpoint: checkpoint


def _maverick() -> None:
    """Build Maverick from Megatron-Core's own layers instead of Transformer Engine's."""
    try:
        from nemo.collections.llm.gpt.model import llama4_utils
    except ImportError:
        return  # NeMo 2.2 does not have the model
    block = llama4_utils.get_gpt_decoder_block_spec
    llama4_utils.get_gpt_decoder_block_spec = lambda config, **_: block(config, use_transformer_engine=False)
