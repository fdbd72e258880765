"""Launches on a machine without a GPU, and properties of all launches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from llmbx.config.profiles import Cluster, Config
from llmbx.config.request import Request
from llmbx.model import Launch, RunSpec
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx.testing import resolve_spec
from llmbx_nemo.launch import launch, request

from ...golden import Golden
from ..texts import files
from .payload import VENV, payload


def spec(workload: str, environ: Mapping[str, str] = {}, **options: Any) -> RunSpec:
    return resolve_spec(workload, environ=environ, install=None, **options)


def text(found: Launch) -> str:
    """A launch as text, with one argument, variable or file per line."""
    (phase,) = found.phases
    lines = [f"{found.nodes} nodes x {found.ranks_per_node} ranks x {found.gpus_per_rank} GPUs"]
    lines += [f"phase {phase.role}: {' '.join(phase.argv)}"]
    lines += [f"env {name}={value}" for name, value in sorted(phase.env.items())]
    lines += [f"forward {name}" for name in phase.forward]
    lines += [f"needs {path}" for path in phase.needs] + [f"makes {path}" for path in phase.makes]
    lines += [f"mount {mount.source}{' (read-only)' if mount.read_only else ''}" for mount in found.mounts]
    return "\n".join(lines) + "\n" + files(found)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("grok1", {}),
        ("grok1", {"size": "mini", "gpus": 2, "settings": {"ep": "2"}}),
        ("llama3.1", {"dtype": "fp32", "checkpoint": True}),
        ("llama4", {"load_checkpoint": "/some/run/checkpoints"}),
    ],
    ids=["grok1", "grok1-ep2", "llama3.1-save", "llama4-load"],
)
def test_minis(golden: Golden, request: Any, name: str, options: dict[str, Any]) -> None:
    found = launch(spec(name, environ={"HF_TOKEN": "hf_0123456789"}, **options), VENV)
    assert "hf_0123456789" not in text(found) + str(found.files)
    golden(f"launch/{request.node.callspec.id}.txt", text(found), like=payload())


def test_the_files_of_every_launch(golden: Golden) -> None:
    for name, listed in payload().items():
        golden(name, listed)


def test_the_specification_is_passed_completely() -> None:
    run = spec("llama4", gpu_type="gb200", gpus=128)
    found = launch(run, VENV)
    handed = msgspec.json.decode(found.files["spec.json"])
    published = handed.pop("published")
    assert msgspec.convert(handed, RunSpec) == run
    assert published["module"] == "nemo.collections.llm.recipes.llama4_e128", "the recipe that the image has"
    assert (found.nodes, found.ranks_per_node, found.gpus_per_rank) == (32, 4, 1)


def test_the_hub_is_accessed_only_for_its_tokenizer() -> None:
    options: dict[str, Any] = {"size": "8b", "gpu_type": "h100", "gpus": 8}
    offline = launch(spec("llama3.1", **options), VENV).phases[0].env
    assert (offline["HF_HUB_OFFLINE"], offline["TRANSFORMERS_OFFLINE"]) == ("1", "1")
    hub = spec("llama3.1", environ={"HF_TOKEN": "x" * 20}, **options, settings={"tokenizer": "hub"})
    assert launch(hub, VENV).phases[0].env["HF_HUB_OFFLINE"] == "0"
    assert request(hub).repositories == ("meta-llama/Llama-3.1-405B",) and launch(hub, VENV).phases[0].forward
    cached = spec("llama3.1", **options, settings={"tokenizer": "hub"}, env={"HF_HUB_OFFLINE": "1"})
    assert launch(cached, VENV).phases[0].env["HF_HUB_OFFLINE"] == "1"


def test_a_cluster_profile_and_an_offline_run_win_over_llmbx_but_not_over_the_user() -> None:
    profile = Config(clusters={"c": Cluster(env={"HF_HUB_OFFLINE": "0", "OMP_WAIT_POLICY": "active"})})
    run = resolve(Request(workload="grok1", size="mini", cluster="c"), load(), profile, {"c": "llmbx.toml"}, {})
    env = launch(run, VENV).phases[0].env
    assert (env["HF_HUB_OFFLINE"], env["TRANSFORMERS_OFFLINE"], env["OMP_WAIT_POLICY"]) == ("0", "1", "active")
    hub = spec("grok1", settings={"tokenizer": "hub"})
    assert launch(hub.replace(env={**hub.env, "HF_HUB_OFFLINE": "1"}), VENV).phases[0].env["HF_HUB_OFFLINE"] == "1"


def test_what_the_user_exports_wins() -> None:
    env = launch(spec("grok1", env={"OMP_WAIT_POLICY": "active", "MINE": "1"}), VENV).phases[0].env
    assert (env["OMP_WAIT_POLICY"], env["MINE"], env["CUDA_VISIBLE_DEVICES"]) == ("active", "1", "")
    gpu = launch(spec("llama3.1", size="8b", gpu_type="h100", gpus=8), VENV).phases[0].env
    assert "CUDA_VISIBLE_DEVICES" not in gpu and gpu["NCCL_NVLS_ENABLE"] == "1"


def test_a_cpu_run_requests_the_environment_and_a_gpu_run_the_image() -> None:
    mini = request(spec("grok1"))
    assert mini.environment and mini.environment.name == "megatron-bridge-cpu" and mini.environment.no_deps == (0, 1, 2)
    gpu = request(spec("grok1", gpu_type="gb200", gpus=128, dtype="bf16"))
    assert gpu.environment is None and gpu.reference == "nvcr.io#nvidia/nemo:25.04.00"
