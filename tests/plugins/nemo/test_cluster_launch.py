"""Launches on a GPU cluster: argv, environment, mounts and the whole job script, by workload and GPU type."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ...golden import Golden
from ..texts import shown, wholes
from .payload import payload

Cases = dict[str, tuple[str, dict[str, Any]]]

ROWS: Cases = {
    "llama3.1-405b-gb300-128": ("llama3.1", {"size": "405b", "gpu_type": "gb300", "gpus": 128}),
    "llama3.1-405b-h100-1024": ("llama3.1", {"size": "405b", "gpu_type": "h100", "gpus": 1024}),
    "llama3.1-70b-b200-64": ("llama3.1", {"size": "70b", "gpu_type": "b200", "gpus": 64}),
    "llama3.1-70b-h100-64-bf16": ("llama3.1", {"size": "70b", "gpu_type": "h100", "gpus": 64, "dtype": "bf16"}),
    "llama3.1-8b-gb200-8": ("llama3.1", {"size": "8b", "gpu_type": "gb200", "gpus": 8}),
    "llama3.1-405b-proxy-h100-64-fp8": (
        "llama3.1", {"size": "405b-proxy", "gpu_type": "h100", "gpus": 64, "dtype": "fp8"},
    ),
    "llama3.1-8b-1gpu-h200-1": ("llama3.1", {"size": "8b-1gpu", "gpu_type": "h200", "gpus": 1}),
    "llama4-gb200-128": ("llama4", {"gpu_type": "gb200", "gpus": 128}),
    "llama4-h100-512-fp8": ("llama4", {"gpu_type": "h100", "gpus": 512, "dtype": "fp8"}),
    "grok1-gb200-256-bf16": ("grok1", {"gpu_type": "gb200", "gpus": 256, "dtype": "bf16"}),
    "grok1-h100-512-fp8": ("grok1", {"gpu_type": "h100", "gpus": 512, "dtype": "fp8"}),
    "deepseek-v3-gb200-256-mxfp8": ("deepseek-v3", {"gpu_type": "gb200", "gpus": 256, "dtype": "mxfp8"}),
    "qwen3-235b-a22b-b300-256-nvfp4": (
        "qwen3", {"size": "235b-a22b", "gpu_type": "b300", "gpus": 256, "dtype": "nvfp4"},
    ),
}  # fmt: skip

GROK = {"gpu_type": "gb200", "gpus": 128, "dtype": "fp8"}
LLAMA = {"size": "8b", "gpu_type": "h100", "gpus": 8, "launcher": "local"}

SLURM: Cases = {
    f"grok1-{runtime}": ("grok1", {**GROK, "runtime": runtime})
    for runtime in ("pyxis", "apptainer", "enroot", "docker", "host")
}
LOCAL: Cases = {
    f"llama3.1-local-{runtime}": ("llama3.1", {**LLAMA, "runtime": runtime})
    for runtime in ("apptainer", "docker", "host")
}
CASES = {**ROWS, **SLURM, **LOCAL}
RESEMBLES = {"qwen3": "deepseek-v3", "grok1": "llama4"}


@functools.cache
def text(name: str) -> str:
    """What the dry run of a case shows."""
    workload, options = CASES[name]
    return shown(workload, **options)


def earlier(name: str) -> Mapping[str, str]:
    """The texts of the cases before this one that have the same workload, or one with the same recipe."""
    before = list(CASES)[: list(CASES).index(name)]
    workload = CASES[name][0]
    return {f"{other}.txt": text(other) for other in before if CASES[other][0] in (workload, RESEMBLES.get(workload))}


def compare(golden: Golden, name: str) -> None:
    """Compare what the dry run of a case shows with its golden file."""
    golden(f"cluster/{name}.txt", text(name), like={**wholes(), **payload(), **earlier(name)})


@pytest.mark.parametrize("name", ROWS)
def test_the_launch_of_a_published_row(golden: Golden, name: str) -> None:
    compare(golden, name)


@pytest.mark.parametrize("name", SLURM)
def test_every_runtime_renders_under_slurm(golden: Golden, name: str) -> None:
    compare(golden, name)


@pytest.mark.parametrize("name", LOCAL)
def test_one_node_renders_locally(golden: Golden, name: str) -> None:
    compare(golden, name)


def test_the_walltime_and_its_gpu_hours_are_shown() -> None:
    text = shown("grok1", gpu_type="gb200", gpus=128, dtype="fp8")
    assert "walltime  35 min, at most 74.7 GPU-hours" in text


def test_a_hosts_files_are_where_the_recipes_put_them() -> None:
    text = shown("grok1", gpu_type="gb200", gpus=128, dtype="fp8")
    assert "/install/images/nvidia+nemo+25.04.00.sqsh" in text
    assert "/install/workloads/pretraining_grok1/experiments/pretraining_grok1_314b_fp8_128_" in text
    assert Path("/install").exists() is False
