"""Launches on a GPU cluster: argv, environment, mounts and the whole job script, by workload and GPU type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Shown = Callable[..., str]

CASES = [
    ("llama3.1", {"size": "405b", "gpu_type": "gb300", "gpus": 128}),
    ("llama3.1", {"size": "405b", "gpu_type": "h100", "gpus": 1024}),
    ("llama3.1", {"size": "70b", "gpu_type": "b200", "gpus": 64}),
    ("llama3.1", {"size": "70b", "gpu_type": "h100", "gpus": 64, "dtype": "bf16"}),
    ("llama3.1", {"size": "8b", "gpu_type": "gb200", "gpus": 8}),
    ("llama3.1", {"size": "405b-proxy", "gpu_type": "h100", "gpus": 64, "dtype": "fp8"}),
    ("llama3.1", {"size": "8b-1gpu", "gpu_type": "h200", "gpus": 1}),
    ("llama4", {"gpu_type": "gb200", "gpus": 128}),
    ("llama4", {"gpu_type": "h100", "gpus": 512, "dtype": "fp8"}),
    ("grok1", {"gpu_type": "gb200", "gpus": 256, "dtype": "bf16"}),
    ("grok1", {"gpu_type": "h100", "gpus": 512, "dtype": "fp8"}),
    ("deepseek-v3", {"gpu_type": "gb200", "gpus": 256, "dtype": "mxfp8"}),
    ("qwen3", {"size": "235b-a22b", "gpu_type": "b300", "gpus": 256, "dtype": "nvfp4"}),
]


@pytest.mark.parametrize(
    ("workload", "options"),
    CASES,
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_the_launch_of_a_published_row(
    golden: Callable[[str, str], None], workload: str, options: dict[str, Any], shown: Shown
) -> None:
    golden(f"cluster/{workload}-{'-'.join(map(str, options.values()))}.txt", shown(workload, **options))


@pytest.mark.parametrize("runtime", ["pyxis", "apptainer", "enroot", "docker", "host"])
def test_every_runtime_renders_under_slurm(golden: Callable[[str, str], None], runtime: str, shown: Shown) -> None:
    text = shown("grok1", gpu_type="gb200", gpus=128, dtype="fp8", runtime=runtime)
    golden(f"cluster/grok1-{runtime}.txt", text)


@pytest.mark.parametrize("runtime", ["apptainer", "docker", "host"])
def test_one_node_renders_locally(golden: Callable[[str, str], None], runtime: str, shown: Shown) -> None:
    text = shown("llama3.1", size="8b", gpu_type="h100", gpus=8, runtime=runtime, launcher="local")
    golden(f"cluster/llama3.1-local-{runtime}.txt", text)


def test_the_walltime_and_its_gpu_hours_are_shown(shown: Shown) -> None:
    text = shown("grok1", gpu_type="gb200", gpus=128, dtype="fp8")
    assert "walltime  35 min, at most 74.7 GPU-hours" in text


def test_a_hosts_files_are_where_the_recipes_put_them(shown: Shown) -> None:
    text = shown("grok1", gpu_type="gb200", gpus=128, dtype="fp8")
    assert "/install/images/nvidia+nemo+25.04.00.sqsh" in text
    assert "/install/workloads/pretraining_grok1/experiments/pretraining_grok1_314b_fp8_128_" in text
    assert Path("/install").exists() is False
