"""What the tests of the MaxText plugin share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.model import RunSpec
from llmbx.testing import resolve_spec


@pytest.fixture
def spec() -> Callable[..., RunSpec]:
    """`spec("llama2", gpus=4, settings={…})`: what the command line would resolve to, in the install /llmb."""

    def find(workload: str, **asked: Any) -> RunSpec:
        return resolve_spec(workload, plugin="maxtext", install="/llmb", **asked)

    return find


@pytest.fixture
def cluster(spec: Callable[..., RunSpec]) -> Callable[..., RunSpec]:
    """`cluster("bf16", 64)`: Llama 2 70B on H100, as the recipe runs it."""

    def find(dtype: str, gpus: int, gpu_type: str = "h100", **asked: Any) -> RunSpec:
        return spec("llama2", size="70b", dtype=dtype, gpu_type=gpu_type, gpus=gpus, **asked)

    return find
