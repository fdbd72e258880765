"""Launches on a GPU cluster: argv, environment, mounts and the whole job script, by image and package version."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from ...golden import Golden
from ..texts import shown, wholes
from .payload import payload

IMAGES: dict[str, dict[str, str]] = {
    "image-2024.12": {},
    "image-25.01": {"image": "nvcr.io#nvidia/jax:25.01-maxtext-py3"},
    "package-0.2": {"image": "ghcr.io#nvidia/jax:maxtext-2026-03-01"},
}
"""The recipe's image, its successor with the same MaxText, and one with the package."""


@functools.cache
def text(name: str) -> str:
    """What the dry run with an image shows."""
    options: dict[str, Any] = {"size": "70b", "gpu_type": "h100", "gpus": 512, "dtype": "fp8", **IMAGES[name]}
    return shown("llama2", **options)


@pytest.mark.parametrize("name", IMAGES)
def test_the_launch_by_image(golden: Golden, name: str) -> None:
    before = list(IMAGES)[: list(IMAGES).index(name)]
    earlier = {f"{other}.txt": text(other) for other in before}
    golden(f"cluster/{name}.txt", text(name), like={**wholes(), **payload(), **earlier})


@pytest.mark.parametrize("runtime", ["apptainer", "enroot", "docker"])
def test_every_runtime_renders_pgle(runtime: str) -> None:
    """Four phases, each in the container; nsys only around the collect phase, inside the container."""
    text = shown("llama2", size="70b", gpu_type="h100", gpus=64, dtype="bf16", runtime=runtime)
    starts = {role: text.split(f"rank_{role}() {{")[1].split("\n}\n")[0] for role in ROLES}
    for role, start in starts.items():
        assert f"rank-{role}.sh" in start and runtime in start and start.count("srun ") == 1
        assert ("--ntasks=1 " in start) == (role in ("check", "convert"))
    shims = {role: text.split(f"cat > ./rank-{role}.sh")[1].split("END_OF_FILE\n")[0] for role in ROLES}
    assert [role for role, shim in shims.items() if "nsys profile" in shim] == ["collect"]


ROLES = ("check", "collect", "convert", "measure")
