"""The entry programs' settings for the framework, from a specification, without the framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.catalog.scales import scales
from llmbx.testing import resolve_spec
from llmbx_nemo.entry import execution, shapes
from llmbx_nemo.entry.execution import Host
from llmbx_nemo.entry.settings import ranks, settings
from llmbx_nemo.workloads import workloads


def spec(workload: str, environ: Mapping[str, str] = {}, **options: Any) -> dict[str, Any]:
    """A resolved specification as the entry script reads it."""
    found: dict[str, Any] = msgspec.to_builtins(resolve_spec(workload, environ=environ, install=None, **options))
    return found


def on_gpus(spec: dict[str, Any]) -> Host:
    return Host(cuda=True, te=True, world=spec["gpus"])


def on_cpu(spec: dict[str, Any]) -> Host:
    return Host(cuda=False, te=False, world=spec["gpus"])


def planned(spec: dict[str, Any], saved_step: int | None = None) -> dict[str, Any]:
    host = on_cpu(spec) if spec["gpu_type"] == "cpu" else on_gpus(spec)
    assert execution.problems(spec, host) == []
    return settings(spec, host, saved_step)


def published() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every scale of every published row: its workload, and the options that choose it."""
    for workload in workloads():
        for recipe in workload.recipes:
            for row in recipe.rows:
                if recipe.source != "llmbx" and recipe.name != "bridge-0.6":
                    for dtype in row.dtypes:
                        for gpu_type in row.gpu_types:
                            for gpus in scales(row.gpus):
                                options = {"size": row.size, "dtype": dtype, "gpu_type": gpu_type, "gpus": gpus}
                                yield workload.name, {"recipe": recipe.name, **options}


def test_every_published_row_becomes_settings() -> None:
    rows = [*published()]
    assert len(rows) > 100
    for workload, options in rows:
        becomes_settings(spec(workload, **options))


def becomes_settings(found: dict[str, Any]) -> None:
    plan, letters = planned(found), found["parallelism"]
    model = plan["model"]
    split = [model[f"{kind}_model_parallel_size"] for kind in ("tensor", "pipeline")] + [model["context_parallel_size"]]
    assert split == [letters["tp"], letters["pp"], letters["cp"]]
    stages = letters["pp"] * (model["virtual_pipeline_model_parallel_size"] or 1)
    ends = 2 if model["account_for_loss_in_pipeline_split"] else 0
    assert (model["num_layers"] + ends) % stages == 0
    assert (plan["train"]["global_batch_size"], plan["train"]["train_iters"]) == (found["global_batch_size"], 50)
    assert model["sequence_parallel"] == (letters["tp"] > 1)
    assert plan["ddp"].get("use_megatron_fsdp", False) == bool(letters["fsdp"]) == plan["dist"]["use_megatron_fsdp"]


def test_the_llama_405b_counts_embedding_and_loss_as_layers() -> None:
    model = planned(spec("llama3.1", size="405b", gpu_type="h100", gpus=1024))["model"]
    assert (model["num_layers"], model["account_for_embedding_in_pipeline_split"]) == (126, True)
    assert model["rope_scaling_factor"] == 8.0 and model["activation_func"] == "silu"
    whole = planned(spec("llama3.1", size="70b", gpu_type="h100", gpus=64, dtype="bf16"))["model"]
    assert whole["account_for_embedding_in_pipeline_split"] is False


def test_maverick_alternates_dense_and_moe_layers_and_skips_rope_every_fourth() -> None:
    model = planned(spec("llama4", gpu_type="gb200", gpus=128))["model"]
    assert model["moe_layer_freq"] == [0, 1] * 24
    assert model["no_rope_freq"] == [0, 0, 0, 1] * 12
    assert (model["num_moe_experts"], model["moe_router_topk"], model["moe_router_score_function"]) == (
        128,
        1,
        "sigmoid",
    )
    assert model["moe_shared_expert_intermediate_size"] == model["moe_ffn_hidden_size"] == 8192


def test_grok_is_gelu_gated_and_its_experts_are_not_fused() -> None:
    model = planned(spec("grok1", gpu_type="gb200", gpus=128, dtype="bf16"))["model"]
    assert (model["activation_func"], model["gated_linear_unit"]) == ("gelu", True)
    assert (model["num_moe_experts"], model["moe_router_topk"], model["moe_router_pre_softmax"]) == (8, 2, True)
    assert model["bias_activation_fusion"] is False and model["moe_grouped_gemm"] is True
    assert planned(spec("llama3.1", size="8b", gpu_type="gb200", gpus=8))["model"]["bias_activation_fusion"] is True


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        ("cs", "bf16_with_fp8_current_scaling_mixed"),
        ("mx", "bf16_with_mxfp8_mixed"),
        ("delayed", "bf16_with_fp8_delayed_scaling_mixed"),
    ],
)
def test_fp8_recipes(recipe: str, name: str) -> None:
    found = spec("llama3.1", size="8b", gpu_type="gb200", gpus=8, settings={"fp8_recipe": recipe})
    precision = planned(found)["mixed_precision"]
    assert (precision["recipe"], precision["grad_reduce_in_fp32"]) == (name, False)
    assert planned(spec("llama3.1", dtype="fp32"))["mixed_precision"] is None
    assert planned(spec("llama3.1", dtype="bf16"))["mixed_precision"]["recipe"] == "bf16_mixed"


def test_cuda_graphs_take_the_whole_iteration_of_a_dense_model_and_parts_of_a_moe() -> None:
    dense = planned(spec("llama3.1", size="8b", gpu_type="gb200", gpus=8))
    assert (dense["model"]["cuda_graph_impl"], dense["model"]["cuda_graph_scope"]) == ("local", ["full_iteration"])
    assert dense["rng"]["te_rng_tracker"] and not dense["rerun_state_machine"]["check_for_nan_in_loss"]
    moe = planned(spec("llama4", gpu_type="h100", gpus=512, dtype="fp8"))["model"]
    assert moe["cuda_graph_impl"] == "transformer_engine" and "moe_router" in moe["cuda_graph_scope"]


def test_recomputed_and_offloaded_layers() -> None:
    recomputed = planned(spec("llama3.1", size="70b", gpu_type="b200", gpus=64))["model"]
    assert (recomputed["recompute_granularity"], recomputed["recompute_method"]) == ("full", "block")
    assert recomputed["recompute_num_layers"] == 5 and "cpu_offloading" not in recomputed
    offloaded = planned(spec("llama3.1", size="405b", gpu_type="gb200", gpus=128))["model"]
    assert (offloaded["cpu_offloading"], offloaded["cpu_offloading_num_layers"]) == (True, 80)
    assert offloaded["cpu_offloading_weights"] is False and offloaded["init_model_with_meta_device"] is True


def test_overlap_of_optimizer_step_and_gather_not_with_checkpoints_or_mx() -> None:
    options: dict[str, Any] = {"size": "405b", "gpu_type": "h100", "gpus": 1024}
    step = "overlap_param_gather_with_optimizer_step"
    assert planned(spec("llama3.1", **options))["comm_overlap"][step] is True
    assert planned(spec("llama3.1", **options, checkpoint=True))["comm_overlap"][step] is False
    mx = spec("llama3.1", **{**options, "gpu_type": "b200", "gpus": 128}, settings={"fp8_recipe": "mx"})
    assert planned(mx)["comm_overlap"][step] is False
    assert planned(spec("llama3.1"))["comm_overlap"] is None


ONE_GPU = [("llama3.1", "8b-1gpu"), ("llama3.1", "70b-1gpu"), ("grok1", "314b-1gpu"), ("llama4", "400b-1gpu")]


@pytest.mark.parametrize(("workload", "size"), ONE_GPU)
def test_one_gpu_without_transformer_engine_uses_torchs_fast_paths(workload: str, size: str) -> None:
    found = spec(workload, size=size, gpu_type="h200", gpus=1)
    host = Host(cuda=True, te=False, world=1)
    assert execution.problems(found, host) == []
    plan = settings(found, host)
    model = plan["model"] or {}
    assert (model["transformer_impl"], model["core_attention"]) == ("local", "sdpa")
    assert model["bias_activation_fusion"] == (workload != "grok1") and model["bias_dropout_fusion"]
    assert (model["cross_entropy_loss_fusion"], model["cross_entropy_fusion_impl"]) == (True, "native")
    # what only Transformer Engine or Apex has
    off = ("persist_layer_norm", "masked_softmax_fusion", "apply_rope_fusion", "gradient_accumulation_fusion")
    assert not any(model[name] for name in off) and not model.get("moe_grouped_gemm")
    ddp = plan["ddp"] or {}
    assert not (ddp["overlap_grad_reduce"] or ddp["overlap_param_gather"] or ddp["use_distributed_optimizer"])
    assert not ddp["grad_reduce_in_fp32"] and not (plan["dataset"] or {})["create_attention_mask"]
    assert (plan["dist"] or {})["distributed_backend"] == "nccl"


def test_the_attention_can_be_selected_only_without_transformer_engine() -> None:
    bare, full = Host(cuda=True, te=False, world=1), Host(cuda=True, te=True, world=1)
    chosen = {"size": "8b-1gpu", "gpu_type": "h200", "gpus": 1}
    for choice in ("sdpa", "cudnn", "flash", "unfused"):
        found = spec("llama3.1", settings={"attention": choice}, **chosen)
        assert (settings(found, bare)["model"] or {})["core_attention"] == choice
        assert execution.problems(found, bare) == []
        (problem,) = execution.problems(found, full)
        assert "leave --set attention out" in problem
    assert execution.problems(spec("llama3.1", **chosen), full) == []
    assert (settings(spec("llama3.1"), Host(False, False, 1))["model"] or {})["core_attention"] == "unfused"


def test_a_mini_uses_the_torch_code_paths() -> None:
    plan = planned(spec("grok1"))
    model = plan["model"]
    fusions = [name for name, value in model.items() if name.endswith("_fusion") and value]
    assert fusions == [] and model["transformer_impl"] == "local" and model["moe_grouped_gemm"] is False
    assert plan["dist"]["distributed_backend"] == "gloo"
    assert (plan["dataset"]["num_workers"], plan["dataset"]["pin_memory"]) == (0, False)
    assert plan["rerun_state_machine"]["check_for_nan_in_loss"] is True
    assert plan["ddp"]["use_distributed_optimizer"] is plan["optimizer"]["use_distributed_optimizer"] is False


def test_settings_of_the_user_are_applied() -> None:
    plan = planned(spec("grok1", settings={"lr": "0.5", "seed": "7", "distributed_timeout_minutes": "3"}))
    assert (plan["optimizer"]["lr"], plan["optimizer"]["min_lr"]) == (0.5, 0.05)
    assert plan["rng"]["seed"] == plan["dataset"]["random_seed"] == 7
    assert plan["dist"]["distributed_timeout_minutes"] == 3
    gpu: dict[str, Any] = {"size": "314b", "dtype": "bf16", "gpu_type": "gb200", "gpus": 128}
    hub = planned(spec("grok1", {"HF_TOKEN": "x" * 20}, settings={"tokenizer": "hub"}, **gpu))["tokenizer"]
    assert hub == {"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": "meta-llama/Meta-Llama-3-70B"}
    assert plan["tokenizer"] == {"tokenizer_type": "NullTokenizer", "vocab_size": 1024}


def test_any_field_of_the_framework_can_be_overridden() -> None:
    found = spec("grok1")
    found["settings"]["overrides"] = (
        "model.qk_clip=true comm_overlap.bucket_size=4 train.manual_gc_interval=7 rng.x=y "
        "ddp.names=[mlp,moe] ddp.numbers=[1,2]"
    )
    plan = settings(found, on_cpu(found))
    assert (plan["model"] or {})["qk_clip"] is True and (plan["comm_overlap"] or {}) == {"bucket_size": 4}
    assert (plan["train"] or {})["manual_gc_interval"] == 7 and (plan["rng"] or {})["x"] == "y"
    assert ((plan["ddp"] or {})["names"], (plan["ddp"] or {})["numbers"]) == (["mlp", "moe"], [1, 2])


def test_a_checkpoint_is_saved_once_and_resumed_by_one_step() -> None:
    saving = planned(spec("llama3.1", steps=6, checkpoint=True))
    assert (saving["checkpoint"]["save"], saving["checkpoint"]["save_interval"]) == ("checkpoints", 6)
    loading = planned(spec("llama3.1", load_checkpoint="/some/run/checkpoints"), saved_step=6)
    assert (loading["train"]["train_iters"], loading["checkpoint"]["load"]) == (7, "/some/run/checkpoints")
    assert loading["checkpoint"]["exit_on_missing_checkpoint"] is True
    assert loading["scheduler"]["override_opt_param_scheduler"] is True
    fsdp = planned(spec("llama3.1", size="70b", gpu_type="gb200", gpus=128, checkpoint=True))
    assert fsdp["checkpoint"]["ckpt_format"] == "fsdp_dtensor"


def test_profiler_steps_for_nsys_are_set_only_on_gpus() -> None:
    options: dict[str, Any] = {"profile": True, "profile_steps": "45-50", "profile_tool": "nsys"}
    gpu = planned(spec("llama3.1", size="8b", gpu_type="gb200", gpus=8, profile_ranks="0,7", **options))["profiling"]
    assert (gpu["profile_step_start"], gpu["profile_step_end"], gpu["profile_ranks"]) == (45, 50, [0, 7])
    assert planned(spec("llama3.1", **options))["profiling"] == {}


@pytest.mark.parametrize(
    ("text", "world", "stages", "expected"),
    [
        ("all", 4, 1, [0, 1, 2, 3]),
        ("0-2,7", 8, 1, [0, 1, 2, 7]),
        ("first,mid,last", 64, 8, [0, 32, 56]),
        ("first,mid,last", 1, 1, [0]),
        ("0-8", 4, 1, [0, 1, 2, 3]),
    ],
)
def test_ranks(text: str, world: int, stages: int, expected: list[int]) -> None:
    assert ranks(text, world, stages) == expected


@given(st.sets(st.integers(0, 63), min_size=1))
def test_ranks_reads_what_is_written_out(chosen: set[int]) -> None:
    assert ranks(",".join(map(str, sorted(chosen))), 64) == sorted(chosen)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"dtype": "fp8"}, "FP8"),
        ({"dtype": "int4"}, "unknown dtype 'int4'"),
        ({"cuda_graphs": True}, "CUDA graphs"),
        ({"offload_layers": 2}, "offloading"),
        ({"parallelism": {"cp": 2}}, "context parallelism"),
        ({"parallelism": {"tp": 2}}, "of experts"),
        ({"parallelism": {"fsdp": True}}, "FSDP"),
        ({"gpus": 4}, "1 ranks were started for 4 GPUs"),
        ({"settings": {"fp8_recipe": "xx"}}, "fp8_recipe 'xx'"),
        ({"architecture": {"shape": "round"}}, "unknown architecture key 'shape'"),
    ],
)
def test_what_a_machine_cannot_run_is_reported(change: dict[str, Any], expected: str) -> None:
    found = spec("grok1")
    for name, value in change.items():
        found[name] = {**found[name], **value} if isinstance(value, dict) else value
    problems = execution.problems(found, Host(cuda=False, te=False, world=1))
    assert any(expected in problem for problem in problems), problems


def test_the_architectures_of_the_catalog_use_known_keys() -> None:
    words = {word for workload in workloads() for size in workload.sizes.values() for word in size.architecture}
    assert words == shapes.KNOWN


def test_tuned_buffers_are_selected_by_shape() -> None:
    names = execution.userbuffers(spec("llama3.1", size="405b", gpu_type="h100", gpus=1024))
    assert names[0] == "userbuffers_fp8_h100_h16384_tp8_cp2_mbs1_seqlen8192"
    blackwell = execution.userbuffers(spec("llama3.1", size="405b", gpu_type="gb300", gpus=128))
    assert blackwell[-1] == "userbuffers_fp8_b200_h16384_tp2_mbs1_seqlen8192"
