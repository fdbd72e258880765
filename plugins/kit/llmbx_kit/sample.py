"""A small valid specification, for tests that do not need a catalog."""

from __future__ import annotations

from typing import Any

from llmbx.api import ModelShape, Parallelism, RunSpec


def sample_spec(**changes: Any) -> RunSpec:
    """Return a run of 20 steps on two H100 ranks with the window 11-18, with `changes` applied."""
    base = RunSpec(
        plugin="toy",
        workload="line",
        folder="fit_line",
        size="mini",
        dtype="bf16",
        gpu_type="h100",
        gpus=2,
        gpus_per_node=2,
        recipe="plain",
        driver="python",
        model=ModelShape(
            layers=4,
            hidden_size=64,
            ffn_hidden_size=128,
            heads=4,
            query_groups=2,
            vocab_size=1000,
            sequence_length=128,
        ),
        parallelism=Parallelism(dp=2),
        micro_batch_size=1,
        global_batch_size=8,
        gradient_accumulation=4,
        steps=20,
        window="11-18",
        runtime="venv",
        launcher="local",
    )
    spec: RunSpec = base.replace(**changes)
    return spec
