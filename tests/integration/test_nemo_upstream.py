"""The job that upstream runs: every value that training would start with, against upstream's own programs.

`llmbx_nemo/upstream/WORKLOAD-RECIPE.json` holds the final configurations of upstream's launches, executed. Here they
are compared as `llmbx catalog diff` does, with the versions inside the recipes' images. What differs has to stand, with
a reason, in `llmbx_nemo/published/WORKLOAD-RECIPE.toml`.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.catalog.configuration import compare_configurations, compared_fields, configuration_key, not_permitted
from llmbx.model import ImageRequest, RunSpec
from llmbx.plugins.manager import load
from llmbx.run.configuration import FinalConfiguration, launch_values, read_final
from llmbx_nemo.published import published
from llmbx_nemo.upstream import expected, program, upstream
from llmbx_venv.runtime import VenvRuntime

from .test_nemo_entry import resolved

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Ours = Callable[[str], dict[str, FinalConfiguration]]

RECIPES = {
    "llama3.1-mbridge": {"megatron-bridge": "0.1.0rc3", "megatron-core": "0.14.0"},
    "llama3.1-nemo2": {"nemo-toolkit": "2.2.1", "megatron-core": "0.11.0"},
    "grok1-nemo2": {"nemo-toolkit": "2.3.0", "megatron-core": "0.12.0"},
    "llama4-nemo2": {"nemo-toolkit": "2.3.1", "megatron-core": "0.12.1"},
}
"""The versions inside each recipe's image."""

TITLES = {"megatron-bridge": "Megatron-Bridge", "nemo-toolkit": "NeMo"}


def names(recipe: str) -> list[str]:
    """The configurations of a recipe whose values upstream's programs gave."""
    found = upstream(*recipe.rsplit("-", 1))
    assert found
    return sorted(found["configurations"])


def spec_of(recipe: str, name: str) -> RunSpec:
    """The run that a configuration (size/dtype/GPU type/GPUs) belongs to."""
    workload, _, asked = recipe.rpartition("-")
    size, dtype, gpu_type, gpus = name.split("/")
    spec = resolved(workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=int(gpus), recipe=asked, launcher="slurm")
    assert configuration_key(spec) == name
    return spec


@pytest.fixture(scope="module")
def ours(shared_install: Path, tmp_path_factory: pytest.TempPathFactory) -> Ours:
    """`ours(recipe)`: what llmbx makes of every configuration; the framework is imported once for all of them."""

    @functools.cache
    def make(recipe: str) -> dict[str, FinalConfiguration]:
        folder = tmp_path_factory.mktemp("built")
        programs = {name: program(spec_of(recipe, name)) for name in names(recipe)}
        first = next(iter(programs.values()))
        image = VenvRuntime().prepare(ImageRequest(environment=first.environment), shared_install, print)
        for path, content in first.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        for name, found in programs.items():
            (folder / name).mkdir(parents=True)
            (folder / name / "spec.json").write_bytes(found.files["spec.json"])
        done = subprocess.run(
            [image.python, *first.argv, *(f"{name}/spec.json" for name in programs)], cwd=folder,
            env={**os.environ, **first.env}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        final = {name: read_final(folder / name) for name in programs}
        return {
            name: found.replace(final={**found.final, **launch_values(spec_of(recipe, name), load())})
            for name, found in final.items()
            if found
        }

    return make


@pytest.mark.parametrize(("recipe", "name"), [(recipe, name) for recipe in RECIPES for name in names(recipe)])
def test_the_final_configuration_is_upstreams(
    recipe: str, name: str, ours: Ours, record_property: Callable[[str, object], None]
) -> None:
    found, wanted = ours(recipe)[name], expected(spec_of(recipe, name), None)
    assert RECIPES[recipe].items() <= found.versions.items()
    assert compared_fields(found.final, wanted) > 500
    differing = compare_configurations(found.final, wanted)
    assert [each.row() for each in not_permitted(differing)] == []
    framework, version = next(iter(RECIPES[recipe].items()))
    workload, _, recipe_name = recipe.rpartition("-")
    record_property("proves", {
        "claim": "equals", "workload": workload, "recipe": recipe_name, "row": name,
        "fields": compared_fields(found.final, wanted), "version": f"{TITLES[framework]} {version}",
    })  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_row_of_a_recipe_is_compared(recipe: str) -> None:
    """Both ends of the scale of each row; every permitted difference has a reason."""
    from llmbx.catalog.scales import scales
    from llmbx_nemo.workloads import workloads

    name, _, wanted = recipe.rpartition("-")
    (workload,) = (w for w in workloads() if w.name == name)
    (found,) = (r for r in workload.recipes if r.name == wanted)
    ends = {
        f"{row.size}/{dtype}/{gpu}/{count}"
        for row in found.rows
        for dtype in row.dtypes
        for gpu in row.gpu_types
        for count in (scales(row.gpus)[0], scales(row.gpus)[-1])
    }
    assert ends == set(names(recipe))
    data = published(name, wanted)
    assert data and all(entry.reason for entry in data.permitted)


def test_the_verb_compares_a_configuration(llmbx: Llmbx, shared_install: Path) -> None:
    asked = ("llama4", "--dtype", "fp8", "--gpu-type", "h100", "--gpus", "512")
    done = llmbx("catalog", "diff", *asked, "--format", "json", install=shared_install)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["configuration"] == "400b/fp8/h100/512" and found["differences"] == []
    assert "data.tokenizer" in [row["key"] for row in found["permitted"]]
    name = "connected.config.tensor_model_parallel_size"
    assert found["final"][name] == found["upstream"][name] == 4


def test_another_configuration_than_upstreams_is_exit_code_1(llmbx: Llmbx, shared_install: Path) -> None:
    asked = ("llama3.1", "--size", "405b", "--gpu-type", "gb200", "--gpus", "512", "--set", "lr=0.5")
    done = llmbx("catalog", "diff", *asked, "--format", "json", install=shared_install)
    assert done.returncode == 1, done.stderr
    differing = {row["key"]: row["final"] for row in json.loads(done.stdout)["differences"]}
    assert differing == {"optimizer.lr": 0.5}


@pytest.mark.parametrize(
    ("workload", "field", "value"), [("grok1", "model.num_moe_experts", 8), ("llama2", "decoder_block", "LLAMA2")]
)
def test_a_mini_is_built_without_upstreams_values(
    workload: str, field: str, value: object, llmbx: Llmbx, shared_install: Path
) -> None:
    done = llmbx("catalog", "diff", workload, "--format", "json", install=shared_install)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["configuration"], found["upstream"], found["differences"]) == ("mini/fp32/cpu/1", None, [])
    assert str(found["final"][field]).endswith(str(value)) and "upstream's configuration is not known" in done.stderr
