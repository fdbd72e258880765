"""Minis of the models whose architecture Megatron-Bridge reads from their configuration on the hub.

They train on the newest Megatron-Bridge, with layers of Megatron-Core that its own minis do not have: latent attention,
sliding windows with attention sinks, normalized queries and keys, shared experts, multi-token prediction.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .test_nemo_versions import NEWEST, install, losses, newest_python

__all__ = ["install", "newest_python"]

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Proves = Callable[[str, object], None]

LAYERS: dict[str, dict[str, object]] = {
    "deepseek-v3": {
        "model.multi_latent_attention": True, "model.kv_lora_rank": 32, "model.q_lora_rank": 48,
        "model.qk_head_dim": 16, "model.qk_pos_emb_head_dim": 8, "model.v_head_dim": 16,
        "model.moe_layer_freq": [0, 1, 1, 1], "model.moe_shared_expert_intermediate_size": 64,
        "model.moe_router_score_function": "sigmoid", "model.moe_router_num_groups": 8,
        "model.moe_router_enable_expert_bias": True, "model.mtp_num_layers": 1, "model.rope_type": "yarn",
    },
    "qwen3": {
        "model.kv_channels": 32, "model.qk_layernorm": True, "model.num_moe_experts": 16, "model.moe_router_topk": 8,
        "model.moe_ffn_hidden_size": 64, "model.rotary_base": 1e6,
    },
    "gpt-oss": {
        "model.window_size": [31, 0], "model.window_attn_skip_freq": 2, "model.softmax_type": "learnable",
        "model.add_bias_linear": True, "model.activation_func_clamp_value": 7.0, "model.kv_channels": 16,
        "model.position_embedding_type": "yarn",
    },
}  # fmt: skip
"""Values of the final configuration that make up the layers of each model."""

PREDICTION = re.compile(r"mtp_1 loss: (\S+)")


def trained(llmbx: Llmbx, install: Path, *asked: str) -> Path:
    """The folder of a completed mini of six steps with four samples each."""
    done = llmbx("run", "--plugin", "nemo", *asked, "--max-steps", "6", "--set", "gbs=4", "--format", "json")
    assert done.returncode == 0, done.stderr + done.stdout
    result: dict[str, Any] = json.loads(done.stdout)
    assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, 6)
    assert result["versions"]["megatron-bridge"] == NEWEST
    (record,) = [p for p in install.glob("workloads/*/experiments/*/*/*/run.json") if result["run_id"] in str(p)]
    return record.parent


@pytest.mark.parametrize("workload", LAYERS)
def test_a_mini_has_the_layers_of_its_model_and_learns(
    workload: str, llmbx: Llmbx, install: Path, newest_python: str, record_property: Proves
) -> None:
    alone = trained(llmbx, install, workload)
    final = json.loads((alone / "configs" / "final.json").read_text())["final"]
    assert {key: final[key] for key in LAYERS[workload]} == LAYERS[workload]
    found = losses(alone)
    assert len(found) == 6 and found[-1] < found[0] - 0.1
    (log,) = alone.glob("log-*.out")
    assert len(PREDICTION.findall(log.read_text())) == (6 if workload == "deepseek-v3" else 0)
    two = trained(llmbx, install, workload, "--size", "mini", "--gpus", "2", "--set", "ep=2")
    assert losses(two) == pytest.approx(found, abs=0.03), "the same data; the experts' first weights are others"
    for ranks, split in ((1, None), (2, "EP 2")):
        proven = {"claim": "trains", "workload": workload, "version": f"Megatron-Bridge {NEWEST}", "ranks": ranks}
        record_property("proves", {**proven, "split": split} if split else proven)


def test_a_hybrid_with_mamba_layers_says_that_it_needs_a_gpu(llmbx: Llmbx) -> None:
    done = llmbx("run", "--plugin", "nemo", "nemotron3")
    assert done.returncode == 2
    assert "nemotron3 mini has no configuration for cpu (the kernels of its Mamba layers need CUDA)" in done.stderr


def test_the_kernels_of_mamba_are_the_reason(newest_python: str) -> None:
    """Megatron-Core builds a Mamba layer only with the package whose kernels need CUDA."""
    program = (
        "import torch, megatron.core.ssm.mamba_mixer as m\n"
        "print(m.HAVE_MAMBA_SSM, m.mamba_chunk_scan_combined, m.mamba_split_conv1d_scan_combined)"
    )
    done = subprocess.run([newest_python, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "None", "None"], done.stderr


def test_virtual_pipeline_stages_learn_what_one_rank_learns(llmbx: Llmbx, install: Path, newest_python: str) -> None:
    """Two ranks are each other's next and previous one, whose messages must not be mixed up."""
    alone = losses(trained(llmbx, install, "qwen3"))
    staged = losses(trained(llmbx, install, "qwen3", "--size", "mini", "--gpus", "2", "--set", "pp=2", "--set", "vp=2"))
    assert staged == pytest.approx(alone, abs=0.05), "the same data; the first weights of the stages are others"
    assert staged[-1] < staged[0] - 0.1
