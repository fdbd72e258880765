"""Fixtures of the MaxText plugin's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.model import RunSpec
from llmbx.testing import resolve_spec


@pytest.fixture
def spec() -> Callable[..., RunSpec]:
    """`spec("llama2", gpus=4, settings={…})`: the specification of such a command line, with the install /llmb."""

    def find(workload: str, **options: Any) -> RunSpec:
        return resolve_spec(workload, plugin="maxtext", install="/llmb", **options)

    return find


@pytest.fixture
def cluster(spec: Callable[..., RunSpec]) -> Callable[..., RunSpec]:
    """`cluster("bf16", 64)`: Llama 2 70B on H100, as the recipe runs it."""

    def find(dtype: str, gpus: int, gpu_type: str = "h100", **options: Any) -> RunSpec:
        return spec("llama2", size="70b", dtype=dtype, gpu_type=gpu_type, gpus=gpus, **options)

    return find
