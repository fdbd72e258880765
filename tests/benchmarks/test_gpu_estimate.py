"""The arithmetic that the one-GPU rows were chosen with."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.model import RunSpec
from llmbx.plugins.manager import load
from llmbx.resolve import resolve

ROWS = [
    ("llama3.1", "8b-1gpu", "bf16"),
    ("llama3.1", "70b-1gpu", "bf16"),
    ("grok1", "314b-1gpu", "bf16"),
    ("llama4", "400b-1gpu", "bf16"),
    ("llama2", "70b-1gpu", "bf16"),
    ("llama2", "70b-1gpu", "fp8"),
]
FULL = {"8b-1gpu": "8b", "70b-1gpu": "70b", "314b-1gpu": "314b", "400b-1gpu": "400b"}


@pytest.fixture
def estimate(gpu: Any) -> ModuleType:
    found: ModuleType = gpu.estimate
    return found


def resolved(workload: str, size: str, **asked: object) -> RunSpec:
    request = Request(workload=workload, size=size, **asked)  # type: ignore[arg-type]
    return resolve(request, load(), Config(), {}, {})


@pytest.mark.parametrize(
    ("workload", "size", "weights"),
    [
        ("llama3.1", "8b", 8_030_261_248),
        ("llama3.1", "70b", 70_553_706_496),
        ("llama3.1", "405b", 405_853_388_800),
        ("llama2", "70b", 68_976_648_192),
    ],
)
def test_published_models_have_as_many_weights_as_are_known(
    estimate: ModuleType, workload: str, size: str, weights: int
) -> None:
    (model,) = [w.sizes[size].model for w in load().workloads if w.name == workload]
    assert estimate.parameters(model) == weights


def test_mixtures_of_experts_have_the_billions_of_their_names(estimate: ModuleType) -> None:
    models = {w.name: w.sizes[w.default_size or ""].model for w in load().workloads if w.name in ("grok1", "llama4")}
    assert estimate.parameters(models["grok1"]) == pytest.approx(314e9, rel=0.02)
    assert estimate.parameters(models["llama4"]) == pytest.approx(400e9, rel=0.01)


@pytest.mark.parametrize(("workload", "size", "dtype"), ROWS)
def test_a_row_for_one_gpu_fits_an_h200_with_a_margin(
    estimate: ModuleType, workload: str, size: str, dtype: str
) -> None:
    """About 100 of the 139 GiB that an H200 shows: not less than 85, and 25 below what is there."""
    spec = resolved(workload, size, dtype=dtype, gpu_type="h200", gpus=1)
    assert 85 < estimate.memory(spec).peak / estimate.GIB < 114


@pytest.mark.parametrize(("workload", "size", "dtype"), ROWS)
def test_a_row_for_one_gpu_is_cut_from_the_real_size_by_layers_and_experts_only(
    workload: str, size: str, dtype: str
) -> None:
    found = next(w for w in load().workloads if w.name == workload)
    small, full = found.sizes[size], found.sizes[FULL[size]]
    assert small.model.replace(layers=full.model.layers, experts=full.model.experts) == full.model
    assert small.proxy and f"{small.model.layers} of the {full.model.layers} layers" in small.title
    if small.model.experts != full.model.experts:
        assert f"{small.model.experts} of its {full.model.experts} experts" in small.title
    spec = resolved(workload, size, dtype=dtype, gpu_type="h200", gpus=1)
    assert (spec.proxy, spec.mini, spec.recipe, spec.parallelism.dp) == (True, False, "one-gpu", 1)
    assert spec.peak is not None and spec.findings == ()


def test_recomputing_layers_costs_less_memory(estimate: ModuleType) -> None:
    plain = resolved("llama3.1", "8b-1gpu", gpu_type="h200", gpus=1)
    recomputed = resolved("llama3.1", "8b-1gpu", gpu_type="h200", gpus=1, settings={"rl": "16"})
    saved = estimate.memory(plain).peak - estimate.memory(recomputed).peak
    assert 10 < saved / estimate.GIB < 25
