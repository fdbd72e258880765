"""The rows of exemplar-performance 26.08 (`exemplar.csv`, from its metadata.yaml files and exemplar.yaml).

Upstream's dtype `fp8` is MXFP8 or FP8 with current scaling, as the launch.sh of each recipe decides: `here`. `suite`
is the number of GPUs in the certification.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmbx.catalog.scales import scales as recipe_scales
from llmbx.catalog.workloads import rows_of
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.model import RunSpec
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx.run.context import findings

FOLDER = Path(__file__).parent
LINES = list(csv.DictReader((FOLDER / "exemplar.csv").open(encoding="utf-8")))
COMPARED = list(csv.DictReader((FOLDER / "exemplar_compared.csv").open(encoding="utf-8")))

RECIPES = {"llama3.1_mlperf": "bridge-0.5"}
"""Recipes of another release."""


def resolved(line: dict[str, str], gpus: int, dtype: str) -> RunSpec:
    request = Request(
        workload=line["workload"], size=line["size"], dtype=dtype, gpu_type=line["gpu_type"], gpus=gpus,
        recipe=RECIPES.get(line["workload"], "bridge-0.6"), launcher="slurm",
    )  # fmt: skip
    return resolve(request, load(), Config(), {}, {}, "/install")


def scales() -> Iterator[tuple[dict[str, str], int]]:
    for line in LINES:
        yield from ((line, int(gpus)) for gpus in line["gpus"].split())


@pytest.mark.parametrize("workload", sorted({line["workload"] for line in LINES}))
def test_every_row_resolves_by_upstreams_names(workload: str) -> None:
    """With upstream's dtype, too. A row that a recipe lacks is scaled, and says so."""
    plugins = load()
    for line, gpus in scales():
        if line["workload"] != workload:
            continue
        spec = resolved(line, gpus, line["here"])
        problems = [finding for finding in findings(spec, plugins.framework(spec.plugin)) if not finding.warning]
        assert (problems, spec.gpus, spec.dtype) == ([], gpus, line["here"])
        own = {scale for _, row in rows_of(plugins.workload(spec.workload), spec.size, spec.recipe)
               if {spec.dtype} & {*row.dtypes} and {spec.row_gpu_type} & {*row.gpu_types} and not row.scaled_from
               for scale in recipe_scales(row.gpus)}  # fmt: skip
        assert (gpus in own) == (spec.scaled_from is None), line
        assert spec.scaled_from is None or "scaled from" in (spec.derived or "")
        assert resolved(line, gpus, line["dtype"]).size == spec.size


def test_the_list_has_all_cells_of_the_certification() -> None:
    """381 in upstream's list, in which each of Nemotron-H's 29 rows is there three times."""
    assert len(list(scales())) == 381 - 2 * 29
    assert sum(bool(line["suite"]) for line in LINES) == 57


def test_all_rows_were_compared_with_upstreams_executed_program() -> None:
    """`make upstream-rows` writes the table; upstream's program scales the rows that the package lacks."""
    specs = [resolved(line, gpus, line["here"]) for line, gpus in scales()]
    cells = {
        (spec.workload, spec.size, spec.dtype, spec.gpu_type, str(spec.gpus), str(spec.scaled_from or ""))
        for spec in specs
    }
    table = {
        (row["workload"], row["size"], row["dtype"], row["gpu_type"], row["gpus"], row["scaled_from"]): row
        for row in COMPARED
    }
    assert table.keys() == cells and len(cells) == 381 - 2 * 29
    for name, row in table.items():
        assert int(row["values"]) > 500 and not row["differing"], name


@pytest.mark.parametrize(
    ("size", "gpu_type", "gpus", "setting"),
    [("70b", "b300", 512, "4"), ("405b", "b300", 512, "4"), ("70b", "b300", 256, None), ("70b", "b200", 512, None)],
)
def test_large_jobs_on_b300_use_four_queue_pairs(size: str, gpu_type: str, gpus: int, setting: str | None) -> None:
    """As launch.sh of exemplar-performance sets it for Llama 3.1."""
    request = Request(workload="llama3.1", size=size, dtype="mxfp8", gpu_type=gpu_type, gpus=gpus, launcher="slurm")
    spec = resolve(request, load(), Config(), {}, {}, "/install")
    assert spec.env.get("NCCL_IB_QPS_PER_CONNECTION") == setting
