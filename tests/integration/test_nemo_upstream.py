"""The job that upstream runs: every value that training would start with, against upstream's own program.

`fixtures/upstream/mbridge.json` holds the final configurations of upstream's launch, executed with the versions inside
nemo:25.09. Here the entry makes the same ones with the same versions. What differs has to stand, with a reason, in
`llmbx_nemo/published/mbridge.toml`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import llmbx
import llmbx_nemo
from llmbx.model import Image
from llmbx_nemo.launch import launch
from llmbx_nemo.published import published

from .test_nemo_entry import nemo_python, resolved
from .test_nemo_versions import overlay

__all__ = ["nemo_python"]

Values = dict[str, dict[str, Any]]

HERE = Path(__file__).parent
UPSTREAM = json.loads((HERE.parent / "fixtures/upstream/mbridge.json").read_text())
VERSION = "0.1.0rc3"
ELSEWHERE = ("launch.", "process_env.", "__version__")
"""Keys that are not the container's: the launch, the process's environment, the package's version."""


def upstream() -> Values:
    """Upstream's values by configuration (size/dtype/GPU type/GPUs)."""
    return {name: {**UPSTREAM["common"], **own} for name, own in UPSTREAM["configurations"].items()}


def specification(name: str) -> dict[str, Any]:
    """What the launch of this row hands to the rank."""
    size, dtype, gpu_type, gpus = name.split("/")
    asked = {"size": size, "dtype": dtype, "gpu_type": gpu_type, "gpus": int(gpus), "recipe": "mbridge"}
    spec = resolved("llama3.1", **asked, launcher="slurm")
    files = launch(spec, Image(kind="container", reference="test", python="python3")).files
    found: dict[str, Any] = json.loads(files["spec.json"])
    return found


@pytest.fixture(scope="module")
def ours(nemo_python: str, shared_install: Path) -> Values:
    """What the entry makes of every configuration, with the versions inside the image."""
    sources = [Path(package.__path__[0]).parent for package in (llmbx_nemo, llmbx)]
    path = os.pathsep.join(map(str, [overlay(VERSION, shared_install.parent, nemo_python), *sources]))
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "CUDA_VISIBLE_DEVICES": "",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    specs = {name: specification(name) for name in UPSTREAM["configurations"]}
    done = subprocess.run(
        [nemo_python, HERE / "bridge_configurations.py"], input=json.dumps(specs), env=env, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: Values = json.loads(done.stdout)
    assert not {name: values["error"] for name, values in found.items() if "error" in values}
    return found


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Upstream's and our value of every key of the container in which they differ; ... where one has none."""
    keys = [key for key in expected.keys() | found.keys() if not key.startswith(ELSEWHERE)]
    pairs = {key: (expected.get(key, ...), found.get(key, ...)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def permitted() -> tuple[str, ...]:
    """Keys, and sections, in which a difference has a reason in the plugin's data."""
    data = published("mbridge")
    assert data and all(entry.reason for entry in data.permitted)
    return tuple(key for entry in data.permitted for key in entry.keys)


@pytest.mark.parametrize("name", sorted(UPSTREAM["configurations"]))
def test_the_final_configuration_is_upstreams(name: str, ours: Values) -> None:
    expected, found = upstream()[name], ours[name]
    assert len(found) > 500
    differing = differences(expected, found)
    allowed = permitted()
    unexplained = {
        k: v for k, v in differing.items() if not any(k == key or k.startswith(f"{key}.") for key in allowed)
    }
    assert unexplained == {}


def test_every_row_of_the_recipe_is_compared() -> None:
    """Both ends of the scale of each row."""
    from llmbx.scales import scales
    from llmbx_nemo.workloads import workloads

    (workload,) = (w for w in workloads() if w.name == "llama3.1")
    (recipe,) = (r for r in workload.recipes if r.name == "mbridge")
    ends = {
        f"{row.size}/{dtype}/{gpu}/{count}"
        for row in recipe.rows
        for dtype in row.dtypes
        for gpu in row.gpu_types
        for count in (scales(row.gpus)[0], scales(row.gpus)[-1])
    }
    assert ends == set(UPSTREAM["configurations"])
