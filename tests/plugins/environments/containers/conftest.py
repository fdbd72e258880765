"""Fixtures for the tests of the container runtimes: a specification and a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.model import Launch, ModelShape, Mount, Parallelism, Phase, RunSpec

MakeSpec = Callable[..., RunSpec]
MakeLaunch = Callable[..., Launch]


@pytest.fixture
def make_spec() -> MakeSpec:
    """`make_spec(**changes)`: a run on eight GPUs with a mount, variables and a secret of the user."""

    def make(**changes: Any) -> RunSpec:
        shape = ModelShape(
            layers=2, hidden_size=8, ffn_hidden_size=16, heads=2, query_groups=2, vocab_size=32, sequence_length=16
        )
        values: dict[str, Any] = {
            "plugin": "toy", "workload": "toy", "folder": "pretrain_toy", "size": "8b", "dtype": "bf16",
            "gpu_type": "h100", "gpus": 8, "gpus_per_node": 8, "recipe": "toy", "driver": "toy", "model": shape,
            "parallelism": Parallelism(), "micro_batch_size": 1, "global_batch_size": 8, "gradient_accumulation": 1,
            "steps": 5, "window": "auto", "runtime": "auto", "launcher": "local",
            "env": {"NCCL_DEBUG": "WARN"}, "secrets": ("HF_TOKEN",), "mounts": ("/data/tokens:/data:ro",),
        }  # fmt: skip
        return RunSpec(**{**values, **changes})

    return make


@pytest.fixture
def make_launch() -> MakeLaunch:
    """`make_launch(gpus_per_rank, **env)`: one phase of eight ranks with a mount and an optional mount."""

    def make(gpus_per_rank: int = 1, **env: str) -> Launch:
        phase = Phase(role="train", argv=("python3", "train.py", "a b"), env={"TOY_MODE": "x y", **env})
        optional = Mount(source="/opt/tools", target="/opt/tool", read_only=True, optional=True)
        mounts = (Mount(source="/install/tools", read_only=True), optional)
        return Launch(nodes=1, ranks_per_node=8, gpus_per_rank=gpus_per_rank, phases=(phase,), mounts=mounts)

    return make
