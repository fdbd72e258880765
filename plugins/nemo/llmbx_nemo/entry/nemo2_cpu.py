"""What lets NeMo 2 train a mini without CUDA, beside the stand-ins for torch.cuda: settings, and mended spots.

Seen with NeMo 2.2.1, 2.3.0 and 2.3.1 on Megatron-Core 0.11 and 0.12. No arithmetic is changed.
"""

from __future__ import annotations

import functools
from typing import Any

from llmbx_nemo.entry.execution import Fields, Spec

OVERLAP = "MegatronCommOverlapCallback"
"""The callback that overlaps communication with computation, which is for CUDA only."""

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
"""No fused kernel, by the model configuration's fields."""


def fields(spec: Spec) -> Fields:
    """The recipe's fields that a CPU changes: a version without one of the model's runs the same without it."""
    found: Fields = {
        "trainer.accelerator": "cpu",
        "trainer.strategy.sequence_parallel": False,
        "trainer.strategy.ddp.overlap_grad_reduce": False,
        "trainer.strategy.ddp.overlap_param_gather": False,
        "trainer.strategy.ddp.average_in_collective": False,
        "data.num_workers": 0,
        "data.pin_memory": False,
        "data.create_attention_mask": True,
        "optim.config.use_precision_aware_optimizer": False,
        # on gloo a second step with the distributed optimizer waits for ever in the reduction of the gradients' norm
        "optim.config.use_distributed_optimizer": False,
        **{f"model.config.{name}": value for name, value in KERNELS.items()},
    }
    if not spec["architecture"].get("no_rope_every"):
        found["model.config.transformer_layer_spec"] = local_layers
    return found


def local_layers(config: Any) -> Any:
    """Megatron's own layers, dense or with experts as the configuration says."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec

    return get_gpt_decoder_block_spec(config, use_transformer_engine=False)


def mend() -> None:
    """After NeMo is imported."""
    from llmbx_nemo.entry import standins

    standins.mend_core()
    _device()
    _optimizer()
    _loaded_tensors()
    _maverick()


def _device() -> None:
    """NeMo seeds Megatron's random states only where it counts a device."""
    import torch

    torch.cuda.device_count = lambda: 1


def _optimizer() -> None:
    """Megatron-Core 0.12 asks for Transformer Engine to quantise parameters even where none is in FP8."""
    from megatron.core.optimizer import distrib_optimizer

    quantize = getattr(distrib_optimizer, "quantize_param_shard", None)
    if quantize is None:
        return

    @functools.wraps(quantize)
    def only_where_there_are_some(parameters: Any, *rest: Any) -> None:
        if parameters:
            quantize(parameters, *rest)

    distrib_optimizer.quantize_param_shard = only_where_there_are_some


def _loaded_tensors() -> None:
    """NeMo 2.2 moves what it has loaded to a CUDA device, which has to be initialised."""
    from nemo.lightning.io import pl

    if hasattr(pl, "_fix_tensors_device"):
        pl._fix_tensors_device = lambda checkpoint: checkpoint


def _maverick() -> None:
    """Maverick's layers are made of Transformer Engine's: here of Megatron's own."""
    try:
        from nemo.collections.llm.gpt.model import llama4_utils
    except ImportError:
        return  # NeMo 2.2 does not have the model
    block = llama4_utils.get_gpt_decoder_block_spec
    llama4_utils.get_gpt_decoder_block_spec = lambda config, **_: block(config, use_transformer_engine=False)
