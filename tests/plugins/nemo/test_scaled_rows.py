"""Rows scaled to other numbers of GPUs, against upstream's own functions (benchmarks/scaled_by_upstream.py)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from llmbx.catalog.scaled import scaled
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx.run.context import findings

TABLE = Path(__file__).with_name("scaled_by_upstream.csv")
PAIRS = list(csv.DictReader(TABLE.open(encoding="utf-8")))


def test_every_row_scales_as_by_upstreams_program() -> None:
    """The same batch where upstream scales, and a refusal where upstream refuses."""
    workloads = {workload.name: workload for workload in load().workloads if workload.plugin == "nemo"}
    accepted = 0
    for pair in PAIRS:
        recipe = next(one for one in workloads[pair["workload"]].recipes if one.name == pair["recipe"])
        row = next(row for row in recipe.rows if row.size == pair["size"] and pair["gpu_type"] in row.gpu_types)
        made = scaled([(recipe, row.replace(gpus=(pair["row_gpus"],)))], int(pair["gpus"]), "row")
        assert made.finding.warning == bool(pair["gbs"]), pair
        if pair["gbs"]:
            accepted += 1
            assert (made.row.gbs, made.gpus) == (int(pair["gbs"]), int(pair["row_gpus"])), pair
    assert accepted > 100 and len(PAIRS) - accepted > 30


@pytest.mark.parametrize(
    ("workload", "size", "dtype", "gpu_type", "gpus", "row_gpus", "gbs"),
    [
        ("deepseek-v3", "671b", "fp8", "h100", 512, 1024, 8192),
        ("llama3.1", "70b", "fp8", "h100", 96, 128, 192),
        ("llama3.1", "405b", "fp8", "h100", 768, 1024, 384),
        ("grok1", "314b", "fp8", "h100", 256, 512, 512),
    ],
)
def test_a_scaled_run_calls_the_function_of_its_row_and_keeps_the_rules(
    workload: str, size: str, dtype: str, gpu_type: str, gpus: int, row_gpus: int, gbs: int
) -> None:
    plugins = load()
    request = Request(workload=workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=gpus)
    spec = resolve(request, plugins, Config(), {}, {}, "/install")
    assert (spec.scaled_from, spec.global_batch_size) == (row_gpus, gbs)
    assert all(finding.warning for finding in findings(spec, plugins.framework(spec.plugin)))
    assert spec.exact_row(plugins.workload(workload)) is None
    assert spec.configuration_key == f"{size}/{dtype}/{gpu_type}/{row_gpus}"


def test_a_borrowed_and_scaled_run_calls_the_function_of_the_lender() -> None:
    from llmbx_nemo.published import function_of, published

    request = Request(workload="llama3.1", size="8b", dtype="bf16", gpu_type="h200", gpus=24, recipe="bridge-0.6")
    spec = resolve(request, load(), Config(), {}, {}, "/install")
    recipes = published("llama3.1", "bridge-0.6")
    assert recipes is not None
    assert function_of(spec, recipes.functions["8b"]).endswith("_64gpu_h100_bf16_config")
    assert spec.derived == "layout of h100, scaled from 64 GPUs; no published figure for 24 x h200"
