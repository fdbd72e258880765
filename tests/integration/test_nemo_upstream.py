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

from llmbx.model import ImageRequest, RunSpec
from llmbx.plugins.manager import load
from llmbx.run.configuration import FinalConfiguration, read_final
from llmbx_nemo.published import published
from llmbx_nemo.upstream import expected, program, upstream
from llmbx_nemo.workloads import NAMES
from llmbx_site.final_configuration import launch_values

from ..plugins.nemo.refusals import CASES, name_of
from ..plugins.nemo.refusals import spec_of as spec_of_case
from .conftest import prepared
from .test_nemo_entry import resolved

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Ours = Callable[[str], dict[str, FinalConfiguration]]
Build = Callable[[dict[str, RunSpec]], tuple[subprocess.CompletedProcess[str], dict[str, Path]]]

RECIPES = {
    "llama3.1-mbridge": {"megatron-bridge": "0.1.0rc3", "megatron-core": "0.14.0"},
    "llama3.1-nemo2": {"nemo-toolkit": "2.2.1", "megatron-core": "0.11.0"},
    "grok1-nemo2": {"nemo-toolkit": "2.3.0", "megatron-core": "0.12.0"},
    "llama4-nemo2": {"nemo-toolkit": "2.3.1", "megatron-core": "0.12.1"},
    "llama3.1-bridge-0.6": {"megatron-bridge": "0.6.2", "megatron-core": "0.19.2"},
    "deepseek-v3-bridge-0.6": {"megatron-bridge": "0.6.2", "megatron-core": "0.19.2"},
    "qwen3-bridge-0.6": {"megatron-bridge": "0.6.2", "megatron-core": "0.19.2"},
    "gpt-oss-bridge-0.6": {"megatron-bridge": "0.6.2", "megatron-core": "0.19.2"},
    "nemotron3-bridge-0.6": {"megatron-bridge": "0.6.2", "megatron-core": "0.19.2"},
    "kimi-k2-bridge-0.6": {"megatron-bridge": "0.6.2", "megatron-core": "0.19.2"},
    "nemotron-h-bridge-0.6": {"megatron-bridge": "0.6.2", "megatron-core": "0.19.2"},
}
"""The versions inside each recipe's image."""

TITLES = {"megatron-bridge": "Megatron-Bridge", "nemo-toolkit": "NeMo"}


def split(recipe: str) -> tuple[str, str]:
    """The workload and the recipe of WORKLOAD-RECIPE, the name of a file."""
    workload = next(name for name in NAMES if recipe.startswith(f"{name}-"))
    return workload, recipe.removeprefix(f"{workload}-")


def names(recipe: str) -> list[str]:
    """The configurations of a recipe whose values upstream's programs gave."""
    found = upstream(*split(recipe))
    assert found
    return sorted(found["configurations"])


def spec_of(recipe: str, name: str) -> RunSpec:
    """The run that a configuration (size/dtype/GPU type/GPUs) belongs to."""
    workload, asked = split(recipe)
    size, dtype, gpu_type, gpus = name.split("/")
    spec = resolved(workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=int(gpus), recipe=asked, launcher="slurm")
    assert spec.configuration_key == name
    return spec


@pytest.fixture(scope="module")
def build(shared_install: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """`build(specs)`: the folders in which the framework was to write the configurations of specifications, by name.

    It is imported once for all of them.
    """

    def make(specs: dict[str, RunSpec]) -> tuple[subprocess.CompletedProcess[str], dict[str, Path]]:
        folder = tmp_path_factory.mktemp("built")
        programs = {name: program(spec) for name, spec in specs.items()}
        first = next(iter(programs.values()))
        image = prepared(ImageRequest(environment=first.environment), shared_install)
        for path, content in (file for found in programs.values() for file in found.files.items()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        for name, found in programs.items():
            (folder / name).mkdir(parents=True)
            (folder / name / "spec.json").write_bytes(found.files["spec.json"])
        done = subprocess.run(
            [image.python, *first.argv, *(f"{name}/spec.json" for name in programs)], cwd=folder,
            env={**os.environ, **first.env}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done, {name: folder / name for name in programs}

    return make


@pytest.fixture(scope="module")
def ours(build: Build) -> Ours:
    """`ours(recipe)`: what llmbx makes of every configuration."""

    @functools.cache
    def make(recipe: str) -> dict[str, FinalConfiguration]:
        done, folders = build({name: spec_of(recipe, name) for name in names(recipe)})
        assert done.returncode == 0, done.stderr[-3000:]
        final = {name: read_final(folder) for name, folder in folders.items()}
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
    assert len(wanted.compared(found.final)) > 500
    differing = wanted.differences(found.final)
    assert [each.row() for each in differing if each.reason is None] == []
    framework, version = next(iter(RECIPES[recipe].items()))
    workload, recipe_name = split(recipe)
    record_property("proves", {
        "claim": "equals", "workload": workload, "recipe": recipe_name, "row": name,
        "fields": len(wanted.compared(found.final)), "version": f"{TITLES[framework]} {version}",
    })  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_row_of_a_recipe_is_compared(recipe: str) -> None:
    """Both ends of the scale of each row; every permitted difference has a reason.

    Rows that upstream's launcher scales are compared as the certification's cells (`exemplar_compared.csv`).
    """
    from llmbx.catalog.scales import scales
    from llmbx_nemo.workloads import workloads

    name, wanted = split(recipe)
    (workload,) = (w for w in workloads() if w.name == name)
    (found,) = (r for r in workload.recipes if r.name == wanted)
    ends = {
        f"{row.size}/{dtype}/{gpu}/{count}"
        for row in found.rows
        if row.scaled_from is None
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
    ("workload", "field", "value"), [("grok1", "model.num_moe_experts", 8), ("llama2", "decoder_block", "llama2")]
)
def test_a_mini_is_built_without_upstreams_values(
    workload: str, field: str, value: object, llmbx: Llmbx, shared_install: Path
) -> None:
    done = llmbx("catalog", "diff", workload, "--size", "mini", "--format", "json", install=shared_install)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["configuration"], found["upstream"], found["differences"]) == ("mini/fp32/cpu/1", None, [])
    assert str(found["final"][field]).endswith(str(value)) and "upstream's configuration is not known" in done.stderr


@pytest.mark.parametrize(
    ("asked", "changed"),
    [
        (
            ("qwen3", "--size", "30b-a3b", "--dtype", "bf16", "--gpu-type", "h100", "--gpus", "16",
             "--set", "cg=false", "--set", "mbs=2", "--set", "lr=1e-4", "--set", "check_for_nan=true"),
            {"model.cuda_graph_impl": "none", "model.cuda_graph_modules": [], "model.use_te_rng_tracker": False,
             "optimizer.lr": 1e-4, "rng.te_rng_tracker": False, "train.micro_batch_size": 2,
             "validation.eval_micro_batch_size": 2, "ddp.check_for_nan_in_grad": True,
             "rerun_state_machine.check_for_nan_in_loss": True},
        ),
        (
            ("deepseek-v3", "--dtype", "mxfp8", "--gpu-type", "gb200", "--gpus", "256",
             "--set", "pp=8", "--set", "vp=2"),
            {"model.pipeline_model_parallel_size": 8, "model.virtual_pipeline_model_parallel_size": 2,
             "model.pipeline_model_parallel_layout.pipeline_model_parallel_size": 8,
             "model.pipeline_model_parallel_layout.virtual_pipeline_model_parallel_size": 2,
             "data_parallel_size": 32, "comm_overlap.data_parallel_size": 32,
             "model.microbatch_group_size_per_vp_stage": 8},
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_the_user_changes_is_all_that_changes_in_a_performance_recipe(
    asked: tuple[str, ...], changed: dict[str, object], llmbx: Llmbx, shared_install: Path
) -> None:
    done = llmbx("catalog", "diff", *asked, "--format", "json", install=shared_install)
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    differing = {row["key"]: row["final"] for row in found["differences"]}
    layout = differing.pop("model.pipeline_model_parallel_layout.layout", None)
    assert differing == changed
    assert layout is None or [len(stages) for stages in layout] == [2] * 8, "upstream's own layout for these stages"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            ("nemotron3", "--size", "30b-a3b", "--gpu-type", "gb300", "--gpus", "8", "--set", "layers=26"),
            "a hybrid model has its layers by a pattern: leave --set layers out",
        ),
        (
            ("llama3.1", "--size", "405b", "--gpu-type", "b300", "--gpus", "128", "--dtype", "bf16",
             "--set", "fsdp=false"),
            "FSDP cannot be switched on or off in a performance recipe: leave --set fsdp out",
        ),
    ],
    ids=("layers", "fsdp"),
)  # fmt: skip
def test_what_a_performance_recipe_cannot_change_is_said(
    asked: tuple[str, ...], says: str, llmbx: Llmbx, shared_install: Path
) -> None:
    done = llmbx("catalog", "diff", *asked, install=shared_install)
    assert done.returncode == 2 and says in done.stderr


def test_megatron_bridge_refuses_the_changes_that_llmbx_refuses_and_no_other(build: Build) -> None:
    done, folders = build({name_of(case): spec_of_case(case) for case in CASES})
    assert done.returncode == 2, done.stderr[-3000:]
    accepted = {name for name, folder in folders.items() if read_final(folder) is not None}
    assert accepted == {name_of(case) for case in CASES if case[2] is None}
