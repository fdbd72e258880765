"""The definitions in containers/ are those that `llmbx image build` renders, and name the recipes' images."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from llmbx.catalog.environments import load_environment, lock_digest
from llmbx_containers.images.build import Recipe, default_base, definition, dockerfile
from llmbx_containers.images.lockfile import Lock
from llmbx_containers.naming import parse_reference

ROOT = Path(__file__).parents[1]
LOCKS = {"nemo": "megatron-bridge-cpu", "maxtext": "maxtext-cpu"}


@pytest.mark.parametrize("plugin", LOCKS)
def test_the_cpu_definitions_are_up_to_date(plugin: str) -> None:
    folder = ROOT / f"plugins/{plugin}/llmbx_{plugin}/environments"
    environment = load_environment(folder / f"{LOCKS[plugin]}.toml")
    minor = environment.pythons[0]
    recipe = Recipe(name=environment.name, lock=lock_digest(environment)[:12], minor=minor, base=default_base(minor))
    assert (ROOT / f"containers/{plugin}/cpu.Dockerfile").read_text() == dockerfile(recipe)
    assert (ROOT / f"containers/{plugin}/cpu.def").read_text() == definition(recipe)


def test_the_lock_has_every_image_of_the_catalog() -> None:
    catalogs = "".join(path.read_text() for path in ROOT.glob("plugins/*/llmbx_*/catalog/*.toml"))
    named = {parse_reference(found).docker for found in re.findall(r'reference = "([^"]+#[^"]+)"', catalogs)}
    lock = msgspec.json.decode((ROOT / "containers/images.lock").read_bytes(), type=Lock)
    assert named and named <= set(lock.images)


def test_a_digest_in_the_lock_is_the_one_that_runs_pull() -> None:
    """A recipe pins the digest of its image in the catalog: a run then pulls exactly this one."""
    lock = msgspec.json.decode((ROOT / "containers/images.lock").read_bytes(), type=Lock)
    for path in ROOT.glob("plugins/*/llmbx_*/catalog/*.toml"):
        for image in images_of(tomllib.loads(path.read_text())):
            known = lock.images[parse_reference(image["reference"]).docker].digest
            assert image.get("digest") == known, f"{path.name}: {image['reference']}"


def images_of(table: object) -> Iterator[dict[str, str]]:
    """Every table of a catalog that names an image in a registry."""
    if isinstance(table, dict):
        if "#" in str(table.get("reference", "")):
            yield table
        for value in table.values():
            yield from images_of(value)
    elif isinstance(table, list):
        for value in table:
            yield from images_of(value)


@pytest.mark.parametrize("plugin", LOCKS)
def test_the_gpu_definitions_stand_on_an_image_of_the_lock(plugin: str) -> None:
    lock = msgspec.json.decode((ROOT / "containers/images.lock").read_bytes(), type=Lock)
    docker = re.search(r"^ARG BASE=(\S+)", (ROOT / f"containers/{plugin}/Dockerfile").read_text(), re.MULTILINE)
    apptainer = re.search(r"^From: (\S+)", (ROOT / f"containers/{plugin}/image.def").read_text(), re.MULTILINE)
    assert docker and apptainer and docker[1] == apptainer[1] and docker[1] in lock.images
