"""Models of the hub: the cache that comes with a run, and the configuration of a mini."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmbx.model import ModelShape, RunSpec
from llmbx.testing import resolve_spec
from llmbx_nemo.hub import EXPERTS, cache_files, config_of, hub_models, mixed
from llmbx_nemo.launch import environment
from llmbx_nemo.published import hub_files, overlay, published
from llmbx_nemo.workloads import workloads

QWEN, REVISION = "models--Qwen--Qwen3-30B-A3B", "ad44e777bcd18fa416d9da3bd8f70d33ebb85d39"


def published_run(workload: str, **asked: Any) -> RunSpec:
    return resolve_spec(workload, **{"recipe": "bridge-0.6", "launcher": "slurm", **asked})


def test_the_cache_has_the_layout_of_the_hub_and_the_commit_that_the_recipe_names() -> None:
    files = cache_files(["Qwen/Qwen3-30B-A3B", "openai/gpt-oss-120b"])
    assert files[f"hub/{QWEN}/refs/main"].decode() == REVISION
    config = json.loads(files[f"hub/{QWEN}/snapshots/{REVISION}/config.json"])
    assert (config["model_type"], config["num_hidden_layers"], config["head_dim"]) == ("qwen3_moe", 48, 128)
    commit = files["hub/models--openai--gpt-oss-120b/refs/main"].decode()
    assert len(commit) == 40 and f"hub/models--openai--gpt-oss-120b/snapshots/{commit}/config.json" in files


def test_a_run_brings_the_models_of_its_recipe_unless_it_uses_the_hub() -> None:
    asked = {"size": "30b-a3b", "gpu_type": "gb200", "gpus": 8, "dtype": "mxfp8"}
    assert {path.split("/")[1] for path in hub_files(published_run("qwen3", **asked))} == {
        QWEN, "models--Qwen--Qwen3-235B-A22B",
    }  # fmt: skip
    online = published_run("qwen3", **asked, settings={"tokenizer": "hub"})
    assert hub_files(online) == {}
    assert hub_files(resolve_spec("llama3.1", size="mini")) == {}


@pytest.mark.parametrize("workload", [w for w in workloads() if any(r.name == "bridge-0.6" for r in w.recipes)],
                         ids=lambda workload: workload.name)  # fmt: skip
def test_the_sizes_of_the_catalog_are_those_of_the_hub(workload: Any) -> None:
    data = published(workload.name, "bridge-0.6")
    assert data
    for size, function in data.functions.items():
        if function.hub is None:
            continue
        config, model = hub_models()[function.hub].config, workload.sizes[size].model
        layers = config.get("num_hidden_layers")
        assert (layers, config["hidden_size"], config["num_attention_heads"]) == (
            model.layers, model.hidden_size, model.heads,
        )  # fmt: skip
        mlperf = (workload.name, size) == ("gpt-oss", "20b")  # its function has the vocabulary of the benchmark
        assert model.vocab_size == (128256 if mlperf else config["vocab_size"])
        pattern = config.get("hybrid_override_pattern")
        if pattern:
            assert len(pattern) == model.layers
            assert (pattern.count("M"), pattern.count("*")) == (model.ssm_layers, model.attention_layers)
        experts = next((config[key] for key in EXPERTS if key in config), None)
        assert (experts, config.get("num_experts_per_tok")) == (model.experts, model.experts_per_token)


@pytest.mark.parametrize(
    ("dtype", "name"), [("bf16", "bf16"), ("fp8", "fp8cs"), ("mxfp8", "fp8mx"), ("nvfp4", "nvfp4")]
)
def test_the_function_is_that_of_size_gpus_and_dtype(dtype: str, name: str) -> None:
    found = overlay(published_run("llama3.1", size="405b", gpu_type="gb300", gpus=256, dtype=dtype))
    function = f"llama31_405b_pretrain_256gpu_gb300_{name}_config"
    assert found == {"function": f"megatron.bridge.perf_recipes.llama:{function}", "layout": None}


@pytest.mark.parametrize(("gpus", "variant"), [(8, "v1"), (72, "v2")])
def test_a_function_of_the_scripts_gets_dtype_and_variant(gpus: int, variant: str) -> None:
    run = published_run("mlperf-llama3.1", size="8b", gpu_type="gb300", gpus=gpus, recipe="bridge-0.5")
    assert overlay(run) == {
        "function": "configs.llama:llama31_8b_pretrain_config_gb300",
        "arguments": {"precision": "nvfp4", "mock": True, "config_variant": variant},
        "layout": None,
    }


def test_the_configuration_of_a_mini_has_its_sizes_and_the_models_architecture() -> None:
    config = config_of(resolve_spec("deepseek-v3", size="mini"))
    full = hub_models()["deepseek-ai/DeepSeek-V3"].config
    assert config is not None and config.keys() == full.keys()
    changed = {key for key in full if config[key] != full[key]}
    assert changed == {
        "hidden_size", "intermediate_size", "moe_intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "n_routed_experts", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "v_head_dim",
        "qk_nope_head_dim", "first_k_dense_replace", "vocab_size",
    }  # fmt: skip
    windowed = config_of(resolve_spec("gpt-oss", size="mini"))
    assert windowed is not None and windowed["sliding_window"] == 32
    assert windowed["layer_types"] == ["sliding_attention", "full_attention"] * 2
    assert config_of(resolve_spec("grok1", size="mini")) is None


@pytest.mark.parametrize(
    ("layers", "mamba", "attention", "pattern"),
    [(4, 1, 1, "E*ME"), (5, 2, 1, "EM*EM"), (52, 23, 6, None), (8, 4, 0, "EMEMEMEM")],
)
def test_the_layers_of_a_hybrid_are_mixed_evenly(layers: int, mamba: int, attention: int, pattern: str | None) -> None:
    shape = ModelShape(
        layers=layers, hidden_size=8, ffn_hidden_size=8, heads=2, query_groups=1, vocab_size=8, sequence_length=8,
        ssm_layers=mamba, attention_layers=attention, experts=8,
    )  # fmt: skip
    found = mixed(shape)
    assert mixed(shape.replace(experts=None)) == found.replace("E", "-")
    assert (len(found), found.count("M"), found.count("*")) == (layers, mamba, attention)
    assert pattern is None or found == pattern


@pytest.mark.parametrize(("gpu_type", "ep", "ranks"), [("gb300", 16, "16"), ("b300", 4, "4"), ("b300", 16, "8")])
def test_another_expert_parallelism_has_its_own_nvlink_ranks(gpu_type: str, ep: int, ranks: str) -> None:
    asked = {"size": "235b-a22b", "gpu_type": gpu_type, "gpus": 256, "dtype": "mxfp8"}
    name = "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"
    published, changed = published_run("qwen3", **asked), published_run("qwen3", **asked, settings={"ep": str(ep)})
    assert environment(published)[name] == {"gb300": "32", "b300": "8"}[gpu_type]
    assert environment(changed)[name] == ranks
