"""Models whose architecture is read from their configuration on the Hugging Face hub, by Megatron-Bridge itself.

`spec["hub"]` is the model's `config.json` with the sizes of the specification. Without Transformer Engine, the layers
are those of Megatron-Core, with what they lack for these models added here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmbx_nemo.entry import stubs
from llmbx_nemo.entry.execution import Fields, Spec


def model(spec: Spec) -> Fields:
    """Return the fields that make the model of `spec["hub"]` one of the specification's dtype and lengths."""
    return {
        "hub": spec["hub"],
        "seq_length": spec["model"]["sequence_length"],
        "vocab_size": spec["model"]["vocab_size"],
        "should_pad_vocab": True,
        "make_vocab_size_divisible_by": 128,
        "params_dtype": "float32" if spec["dtype"] == "fp32" else "bfloat16",
        "bf16": spec["dtype"] != "fp32",
    }


def provider(fields: Fields) -> Any:
    """Return Megatron-Bridge's provider for the model of `fields["hub"]`, with the other fields set.

    Raises `AttributeError` with the name of a field that the provider does not have.
    """
    import torch
    from transformers import AutoConfig

    with stubs.absent_packages():
        from megatron.bridge import AutoBridge

        rest = dict(fields["hub"])
        config = AutoConfig.for_model(rest.pop("model_type"), **rest)
        model = AutoBridge.from_hf_config(config).to_megatron_provider(load_weights=False)
    values = {name: value for name, value in fields.items() if name not in ("hub", "core_attention")}
    for name in ("params_dtype", "pipeline_dtype"):
        values[name] = getattr(torch, values[name])
    for name, value in {**values, "autocast_dtype": values["params_dtype"]}.items():
        if not hasattr(model, name):
            raise AttributeError(f"this Megatron-Bridge has no model.{name}")
        setattr(model, name, value)
    if fields.get("transformer_impl") == "local":
        local_layers(model)
    return model


def local_layers(provider: Any) -> None:
    """Make a provider use Megatron-Core's layers instead of Transformer Engine's."""
    from megatron.bridge.models.gpt_provider import local_layer_spec

    if getattr(provider, "multi_latent_attention", False):
        provider.transformer_layer_spec = latent_layers()
    elif provider.add_bias_linear and provider.num_moe_experts:
        provider.transformer_layer_spec = biased_expert_layers()
    else:
        provider.transformer_layer_spec = local_layer_spec


def latent_layers() -> Callable[..., Any]:
    """Return the layer specification of latent attention, dense and expert layers, and set that of prediction layers.

    Megatron-Core's attention knows one width of heads; latent attention has another one for its values.
    """
    from megatron.bridge.models import gpt_provider
    from megatron.core.models.gpt import gpt_layer_specs
    from megatron.core.transformer.dot_product_attention import DotProductAttention

    class LatentCore(DotProductAttention):
        def __init__(self, *args: Any, k_channels: int | None = None, v_channels: int | None = None, **more: Any):
            super().__init__(*args, **more)
            if v_channels:
                self.hidden_size_per_partition = v_channels * self.num_attention_heads_per_partition

    def layers(config: Any, vp_stage: int | None = None) -> Any:
        block = gpt_layer_specs.get_gpt_decoder_block_spec(
            config, use_transformer_engine=False, normalization="RMSNorm", vp_stage=vp_stage
        )
        for layer in block.layer_specs:
            layer.submodules.self_attention.submodules.core_attention = LatentCore
        return block

    def prediction(config: Any, vp_stage: int | None = None) -> Any:
        if not config.mtp_num_layers:
            return None
        block = layers(config, vp_stage)
        return gpt_layer_specs.get_gpt_mtp_block_spec(config, block, use_transformer_engine=False, vp_stage=vp_stage)

    gpt_provider.mtp_block_spec = prediction
    return layers


def biased_expert_layers() -> Callable[..., Any]:
    """Return the layer specification of experts with biases.

    The bias is added in place to the result of an expert's second matrix (`mlp.py` of Megatron-Core 0.19). If that has
    been reduced over one rank, it is a view, which autograd does not let change; without the reduction it is none.
    """
    from megatron.bridge.models.gpt_provider import local_layer_spec
    from megatron.core.tensor_parallel.layers import RowParallelLinear

    class ExpertRow(RowParallelLinear):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.explicit_expert_comm = True

    def layers(config: Any) -> Any:
        spec = local_layer_spec(config)
        spec.submodules.mlp.keywords["submodules"].experts.keywords["submodules"].linear_fc2 = ExpertRow
        return spec

    return layers
