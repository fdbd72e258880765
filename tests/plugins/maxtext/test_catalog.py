"""The catalog compared with the recipe's tables, and resolved rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from llmbx.catalog.environments import load_environment
from llmbx.model import Reference, RunSpec
from llmbx_environments.lock_file import versions_of
from llmbx_maxtext.flops import compute
from llmbx_maxtext.launch import request
from llmbx_maxtext.workloads import workloads

Spec = Callable[..., RunSpec]

# As printed: GPUs; FSDP; global batch; seconds a step; tokens per second; MFU in percent; days for 1T tokens.
TABLES = {
    "bf16": """
64 128 256 512 1024 2048
64 128 256 128 128 128
128 256 512 1024 2048 4096
6.999 7.072 7.153 7.091 7.084 7.066
74908.99 148271.49 293184.96 591496.83 1184162.62 2374358.34
52.59 52.04 51.45 51.90 51.95 52.09
154.51 78.06 39.48 19.57 9.77 4.87
""",
    "fp8": """
64 128 256 512 1024 2048
64 128 256 128 128 128
128 256 512 1024 2048 4096
4.324 4.556 4.959 5.043 5.062 4.93
121250.69 230152.77 422898.16 831708.11 1657172.66 3403086.41
42.54 40.37 37.09 36.47 36.34 37.31
95.46 50.29 27.37 13.92 6.98 3.40
""",
}
PEAK = {"bf16": 989.0, "fp8": 1979.0}


def columns(dtype: str) -> list[tuple[float, ...]]:
    rows = [[float(part) for part in line.split()] for line in TABLES[dtype].split("\n") if line]
    return list(zip(*rows, strict=True))


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_every_scale_of_the_tables_resolves_to_its_row(cluster: Spec, dtype: str) -> None:
    for gpus, fsdp, batch, *_ in columns(dtype):
        found = cluster(dtype, int(gpus))
        assert (found.parallelism.fsdp, found.global_batch_size, found.micro_batch_size) == (fsdp, batch, 2)
        assert found.gradient_accumulation == 1 and found.parallelism.dp == gpus
        assert (found.steps, found.window, found.recipe, found.walltime_minutes) == (50, "last", "pgle-25.01", 60)
        assert found.model.sequence_length == 4096 and found.nodes == gpus / 8
        assert not found.findings


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_the_published_tables_ship_as_printed(dtype: str) -> None:
    (llama,) = [workload for workload in workloads() if workload.name == "llama2"]
    found = [r for r in llama.references if (r.size, r.dtype, r.kind) == ("70b", dtype, "table")]
    printed = [
        (gpus, batch, seconds, tokens, round(percent / 100, 6), days)
        for gpus, _, batch, seconds, tokens, percent, days in columns(dtype)
    ]
    assert [
        (r.gpus, r.global_batch_size, r.step_time_s, r.tokens_per_s, r.mfu, r.days_per_1t_tokens) for r in found
    ] == printed
    for r in found:
        assert (r.size, r.gpu_type, r.convention, r.peak_tflops, r.model_flops) == (
            "70b",
            "h100",
            "full",
            PEAK[dtype],
            1.82e15,
        )
        assert "MaxText Llama 2 recipe" in r.source and r.disputed is None


def test_the_tables_agree_with_the_recipes_own_formulas() -> None:
    """The worked example truncates its days, the tables round them."""
    (llama,) = [workload for workload in workloads() if workload.name == "llama2"]
    references = [reference for reference in llama.references if reference.recipe == "pgle-25.01"]
    assert len(references) == 13

    def check(r: Reference) -> None:
        assert r.step_time_s and r.tokens_per_s and r.mfu and r.peak_tflops and r.model_flops and r.global_batch_size
        assert r.tokens_per_s == round(4096 * r.global_batch_size / r.step_time_s, 2)
        days = 1e12 / r.tokens_per_s / 86400
        assert r.days_per_1t_tokens == (round(days, 2) if r.kind == "table" else math.floor(days * 100) / 100)
        utilisation = r.global_batch_size * r.model_flops / r.step_time_s / r.gpus / (r.peak_tflops * 1e12)
        assert r.mfu == pytest.approx(round(utilisation, 4), abs=1e-9)

    for reference in references:
        check(reference)


@pytest.mark.parametrize(
    ("name", "count"), [("llama2", 6), ("maxtext-llama3.1", 3)], ids=["of MaxText and JAX-Toolbox", "of gpu-recipes"]
)
def test_figures_of_other_sources_agree_with_their_formulas(name: str, count: int) -> None:
    """Their TFLOP/s are those of the full convention, the MFU by the peak that they print."""
    (workload,) = [workload for workload in workloads() if workload.name == name]
    references = [reference for reference in workload.references if reference.recipe != "pgle-25.01"]
    assert len(references) == count
    for r in references:
        model = workload.sizes[r.size].model
        full = compute(model).full
        if r.step_time_s and r.tflops_per_gpu and r.global_batch_size and r.tokens_per_s_per_gpu:
            per_gpu = r.global_batch_size / r.step_time_s / r.gpus
            assert per_gpu * full / 1e12 == pytest.approx(r.tflops_per_gpu, rel=1e-4)
            assert per_gpu * model.sequence_length == pytest.approx(r.tokens_per_s_per_gpu, rel=1e-4)
            assert r.peak_tflops and r.mfu == pytest.approx(r.tflops_per_gpu / r.peak_tflops, abs=1e-4)


def test_the_worked_example_exists() -> None:
    (llama,) = [workload for workload in workloads() if workload.name == "llama2"]
    (example,) = [r for r in llama.references if r.kind == "example"]
    assert (example.step_time_s, example.tokens_per_s, example.mfu) == (7.908, 66298.43, 0.4654)
    assert (example.days_per_1t_tokens, example.tflops_per_gpu) == (174.57, 460.48)


@pytest.mark.parametrize("gpus", [64, 128, 256, 512, 1024, 2048])
def test_a100_runs_bf16_at_every_scale(cluster: Spec, gpus: int) -> None:
    found = cluster("bf16", gpus, "a100")
    assert not found.findings and found.parallelism.fsdp == min(gpus, 256 if gpus <= 256 else 128)


def test_the_recipes_variables_are_exported(cluster: Spec) -> None:
    assert cluster("fp8", 64).env == {
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.94",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "NVTE_FUSED_ATTN": "1",
        "NCCL_IB_SL": "1",
    }


# GiB of data that XLA combines, by dtype and scale: 8 GiB over the recipe's divisors.
@pytest.mark.parametrize(
    ("dtype", "gpus", "divisors"),
    [
        ("bf16", 64, (4, 4, 256)),
        ("bf16", 256, (4, 4, 256)),
        ("bf16", 512, (4, 4, 512)),
        ("fp8", 256, (8, 16, 1024)),
        ("fp8", 512, (8, 16, 2048)),
        ("fp8", 2048, (8, 16, 2048)),
    ],
)
def test_thresholds_change_at_64_nodes(cluster: Spec, dtype: str, gpus: int, divisors: tuple[int, int, int]) -> None:
    settings = cluster(dtype, gpus).settings
    assert tuple(settings[f"{name}_divisor"] for name in ("all_reduce", "all_gather", "reduce_scatter")) == divisors


@pytest.mark.parametrize("name", ["llama2", "mixtral"])
def test_the_default_without_a_gpu_is_the_mini_in_its_own_environment(spec: Spec, name: str) -> None:
    found = spec(name)
    assert (found.size, found.gpu_type, found.gpus, found.steps, found.mini) == ("mini", "cpu", 1, 50, True)
    image_request = request(found)
    assert (
        image_request.environment is not None
        and image_request.environment.name == "maxtext-cpu"
        and image_request.reference is None
    )


@pytest.mark.parametrize("alias", ["maxtext_llama2", "pretrain_maxtext_llama2"])
def test_the_recipes_names_are_aliases(spec: Spec, alias: str) -> None:
    assert spec(alias).workload == "llama2"


def test_a_cluster_run_requests_the_recipes_image(cluster: Spec) -> None:
    image_request = request(cluster("bf16", 64))
    assert image_request.reference == "ghcr.io#nvidia/jax:maxtext-2024-12-09" and image_request.environment is None


def test_the_environment_pins_everything_for_both_interpreters(spec: Spec) -> None:
    lock = request(spec("llama2")).environment
    assert lock is not None and lock.pythons == ("3.12", "3.13") and lock.no_deps == (0,)
    versions = versions_of(lock)
    assert len(versions) == 125
    assert (versions["maxtext"], versions["jax"], versions["jaxlib"]) == ("0.2.5", "0.12.0.1", "0.12.0.1")


def test_the_lock_file_is_the_one_that_is_loaded(spec: Spec) -> None:
    from importlib import resources

    file = resources.files("llmbx_maxtext") / "environments" / "maxtext-cpu.toml"
    assert load_environment(file) == request(spec("mixtral")).environment
