"""The job that upstream runs: every value that training would start with, against upstream's own programs.

`fixtures/upstream/WORKLOAD-RECIPE.json` holds the final configurations of upstream's launches, executed. Here the entry
makes the same ones with the versions inside the recipes' images. What differs has to stand, with a reason, in
`llmbx_nemo/published/WORKLOAD-RECIPE.toml`.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from llmbx.launchers.payload import CODE
from llmbx.model import Image
from llmbx_nemo.launch import launch
from llmbx_nemo.published import published

from .nemo_versions import BRIDGE, NEMO2, overlay
from .test_nemo2 import nemo2_python
from .test_nemo_entry import nemo_python, resolved

__all__ = ["nemo2_python", "nemo_python"]

Values = dict[str, dict[str, Any]]
Ours = Callable[[str], Values]

UPSTREAM = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parents[1] / "fixtures/upstream").glob("*.json"))
}
VERSIONS = {
    "llama3.1-mbridge": (BRIDGE, "0.1.0rc3"),
    "llama3.1-nemo2": (NEMO2, "2.2.1"),
    "grok1-nemo2": (NEMO2, "2.3.0"),
    "llama4-nemo2": (NEMO2, "2.3.1"),
}
"""The versions inside each recipe's image."""

ROWS = [(recipe, name) for recipe, content in UPSTREAM.items() for name in sorted(content["configurations"])]
ELSEWHERE = ("launch.", "process_env.", "__version__")
"""Keys that are not of the configuration: the launch, the process's environment, the package's version."""


def upstream(recipe: str, name: str) -> dict[str, Any]:
    """Upstream's values of a configuration (size/dtype/GPU type/GPUs)."""
    return {**UPSTREAM[recipe]["common"], **UPSTREAM[recipe]["configurations"][name]}


def files(recipe: str, name: str) -> dict[str, bytes]:
    """What the launch of this row carries to the rank."""
    workload, _, asked = recipe.rpartition("-")
    size, dtype, gpu_type, gpus = name.split("/")
    row = {"size": size, "dtype": dtype, "gpu_type": gpu_type, "gpus": int(gpus), "recipe": asked}
    image = Image(kind="container", reference="test", python="python3")
    return dict(launch(resolved(workload, **row, launcher="slurm"), image).files)


@pytest.fixture(scope="module")
def ours(request: pytest.FixtureRequest, shared_install: Path, tmp_path_factory: pytest.TempPathFactory) -> Ours:
    """`ours(recipe)`: what the entry makes of every configuration, with the versions inside the image."""

    @functools.cache
    def make(recipe: str) -> Values:
        framework, version = VERSIONS[recipe]
        python = request.getfixturevalue("nemo_python" if framework is BRIDGE else "nemo2_python")
        carried = {name: files(recipe, name) for name in UPSTREAM[recipe]["configurations"]}
        folder = tmp_path_factory.mktemp("rank")
        for path, content in next(iter(carried.values())).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                map(str, [overlay(framework, version, shared_install.parent), folder / CODE])
            ),
            "CUDA_VISIBLE_DEVICES": "",
            "TORCHDYNAMO_DISABLE": "1",
            "HF_HUB_OFFLINE": "1",
        }
        specs = {name: json.loads(content["spec.json"]) for name, content in carried.items()}
        done = subprocess.run(
            [python, "-m", "llmbx_nemo.entry.configure"], input=json.dumps(specs), env=env, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found: Values = json.loads(done.stdout)
        assert not {name: values["error"] for name, values in found.items() if "error" in values}
        return found

    return make


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Upstream's and our value of every key in which they differ; ... where one has none."""
    keys = [key for key in expected.keys() | found.keys() if not key.startswith(ELSEWHERE)]
    pairs = {key: (expected.get(key, ...), found.get(key, ...)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize(("recipe", "name"), ROWS)
def test_the_final_configuration_is_upstreams(
    recipe: str, name: str, ours: Ours, record_property: Callable[[str, object], None]
) -> None:
    data = published(*recipe.rsplit("-", 1))
    assert data and all(entry.reason for entry in data.permitted)
    found = ours(recipe)[name]
    assert len(found) > 500
    differing = differences(upstream(recipe, name), found)
    assert {k: pair for k, pair in differing.items() if not data.permits(k, there=pair[1] is not ...)} == {}
    framework, version = VERSIONS[recipe]
    workload, _, recipe_name = recipe.rpartition("-")
    record_property("proves", {
        "claim": "equals", "workload": workload, "recipe": recipe_name, "row": name, "fields": len(found),
        "version": f"{'Megatron-Bridge' if framework is BRIDGE else 'NeMo'} {version}",
    })  # fmt: skip


@pytest.mark.parametrize("recipe", sorted(UPSTREAM))
def test_every_row_of_a_recipe_is_compared(recipe: str) -> None:
    """Both ends of the scale of each row."""
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
    assert ends == set(UPSTREAM[recipe]["configurations"])
