"""Lets the installed Megatron-Bridge validate configurations for GPUs, on a machine without one.

Reads specifications (JSON, one a line) from standard input and prints one JSON object for each: what Megatron made of
it, or `error`. Transformer Engine seems to be installed, with the parts that Megatron's own validation checks; with the
argument `--without-te` it is absent, as it is.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import types
from typing import Any

from llmbx_nemo.entry import bridge, config, execution
from llmbx_nemo.entry.execution import Host
from llmbx_nemo.entry.settings import settings


class FusedAdam:
    """The signature that Megatron looks for."""

    def __init__(
        self, params: Any, store_param_remainders: bool, master_weight_dtype: Any, use_decoupled_grad: Any,
        master_weights: Any, exp_avg_dtype: Any, exp_avg_sq_dtype: Any,
    ) -> None: ...  # fmt: skip


def declare_transformer_engine() -> None:
    from megatron.bridge.training import mixed_precision
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.optimizer import optimizer_config
    from megatron.core.transformer import transformer_config
    from megatron.core.transformer.moe import moe_utils

    for name in ("transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.optimizers"):
        module: Any = types.ModuleType(name)
        module.__path__, module.__version__, module.FusedAdam = [], "2.9.0", FusedAdam
        sys.modules[name] = module
    kernels = ("permute", "permute_with_probs", "sort_chunks_by_index", "sort_chunks_by_index_with_probs", "unpermute")
    for name in kernels:
        setattr(moe_utils, f"fused_{name}", object())
    rope_utils.fused_apply_rotary_pos_emb = rope_utils.fused_apply_rotary_pos_emb_thd = object()
    for module in (mixed_precision, optimizer_config, transformer_config):
        module.is_te_min_version = lambda *_, **__: True


def accept(spec: dict[str, Any], te: bool) -> dict[str, Any]:
    from megatron.bridge.training.config import runtime_config_update

    os.environ["WORLD_SIZE"] = str(spec["gpus"])
    host = Host(cuda=True, te=te, world=spec["gpus"])
    container = config.container(settings(spec, host), execution.userbuffers(spec))
    runtime_config_update(container)
    model = container.model
    return {
        "data_parallel_size": container.data_parallel_size,
        "fp8": model.fp8,
        "fp8_recipe": str(model.fp8_recipe),
        "tp_comm_overlap": model.tp_comm_overlap,
        "tuned_buffers": bool(model.tp_comm_overlap and model.tp_comm_overlap_cfg),
        "overlap_grad_reduce": container.ddp.overlap_grad_reduce,
        "cuda_graphs": model.cuda_graph_impl,
        "fsdp": container.dist.use_megatron_fsdp,
        "attention": attentions(model),
        "fused": [model.bias_activation_fusion, model.bias_dropout_fusion, model.cross_entropy_loss_fusion],
    }


def one_rank() -> None:
    """Megatron's process groups of a lone rank: layers that differ are told apart by pipeline stage."""
    import torch
    from megatron.core import parallel_state

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()


def attentions(model: Any) -> list[str]:
    """The class of each layer's core attention; one for all layers where they are alike."""
    if model.transformer_impl == "transformer_engine" or model.pipeline_model_parallel_size > 1:
        return []
    found = model.transformer_layer_spec(model, vp_stage=None)
    layers = getattr(found, "layer_specs", [found])
    return [layer.submodules.self_attention.submodules.core_attention.__name__ for layer in layers]


def main(te: bool) -> None:
    bridge.prepare()
    logging.disable(logging.WARNING)
    if te:
        declare_transformer_engine()
    else:
        one_rank()
    for line in sys.stdin:
        try:
            found = accept(json.loads(line), te)
        except (AssertionError, ValueError, RuntimeError, TypeError, AttributeError) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("WORLD_SIZE", "1")
    main(te="--without-te" not in sys.argv)
