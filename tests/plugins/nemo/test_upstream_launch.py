"""Comparison with upstream's launch: environment, nodes, ranks, NUMA binding, segment and step of every executed
configuration.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import llmbx_nemo
from llmbx.model import Image, RunSpec
from llmbx.testing import resolve_spec
from llmbx_nemo.launch import environment, launch
from llmbx_nemo.published import published
from llmbx_nemo.workloads import NAMES

UPSTREAM = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(llmbx_nemo.__path__[0], "upstream")).glob("*.json"))
}
"""Upstream's values by recipe (WORKLOAD-RECIPE)."""

OWN = ("LLMBX_SPEC", "PYTHONUNBUFFERED")
"""Variables of llmbx's own programs."""


@functools.cache
def resolved(recipe: str, name: str) -> tuple[RunSpec, dict[str, Any]]:
    """llmbx's specification of a configuration, and upstream's values."""
    workload = next(name for name in NAMES if recipe.startswith(f"{name}-"))
    wanted = recipe.removeprefix(f"{workload}-")
    size, dtype, gpu_type, gpus = name.split("/")
    spec = resolve_spec(
        workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=int(gpus), recipe=wanted, launcher="slurm"
    )
    return spec, {**UPSTREAM[recipe]["common"], **UPSTREAM[recipe]["configurations"][name]}


def configurations(recipe: str) -> Iterator[tuple[str, RunSpec, dict[str, Any]]]:
    """The name of each configuration of a recipe, and what `resolved` returns."""
    for name in sorted(UPSTREAM[recipe]["configurations"]):
        yield (name, *resolved(recipe, name))


@pytest.mark.parametrize("recipe", UPSTREAM)
def test_the_environment_is_upstreams(recipe: str) -> None:
    for name, spec, upstream in configurations(recipe):
        theirs = {key.removeprefix("launch.env."): value for key, value in upstream.items() if "launch.env." in key}
        ours = {key: value for key, value in environment(spec).items() if key not in OWN}
        data = published(spec.workload, spec.recipe)
        assert data
        differing = {key: (theirs.get(key), ours.get(key)) for key in ours | theirs if ours.get(key) != theirs.get(key)}
        assert {key: pair for key, pair in differing.items() if not data.permits(f"launch.env.{key}")} == {}, name


@pytest.mark.parametrize("recipe", UPSTREAM)
def test_nodes_ranks_and_numa_binding_are_upstreams(recipe: str) -> None:
    for name, spec, upstream in configurations(recipe):
        found = launch(spec, Image(kind="container", reference="test", python="python3"))
        ranks = (upstream["launch.nodes"], upstream["launch.ntasks_per_node"])
        assert (found.nodes, found.ranks_per_node) == ranks, name
        launched = json.dumps({key: value for key, value in upstream.items() if key.startswith("launch.")})
        divisor = re.search(r"SLURM_LOCALID/(\d+)", launched)
        assert found.ranks_per_numa_node == (int(divisor[1]) if divisor else None), name


@pytest.mark.parametrize("recipe", UPSTREAM)
def test_segment_wait_and_boost_slider_are_upstreams(recipe: str) -> None:
    for name, spec, upstream in configurations(recipe):
        slurm = spec.plugin_settings["slurm"]
        segment = upstream["launch.segment"]
        assert slurm.get("sbatch", {}).get("segment") == (None if segment is None else str(segment)), name
        assert slurm["srun"] == {"wait": "60"}, f"{name}: NeMo-Run's srun"
        assert slurm.get("vboost") == (1 if spec.driver == "nemo2" else None), f"{name}: NeMo 2's PerfEnvPlugin"


def test_numa_binding_can_be_switched_off_and_is_not_for_cpus() -> None:
    spec, _ = resolved("llama3.1-mbridge", "8b/fp8/h100/8")
    image = Image(kind="container", reference="test", python="python3")
    off = spec.replace(settings={**spec.settings, "numa_binding": False})
    assert launch(off, image).ranks_per_numa_node is None
    assert launch(spec.replace(gpu_type="cpu"), image).ranks_per_numa_node is None
    older = resolve_spec("llama3.1", size="8b", dtype="fp8", gpu_type="h100", gpus=8, recipe="nemo2", launcher="slurm")
    assert launch(older, image).ranks_per_numa_node is None, "upstream binds nothing with NeMo 2's Llama"
