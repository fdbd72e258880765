"""containers/images.lock has the images of the catalog, and the image built for a recipe is based on the recipe's."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import ImageRequest
from llmbx_environments.containers.images.build import recipe_with_nsys
from llmbx_environments.containers.images.definition import apptainer_definition
from llmbx_environments.containers.naming import parse_reference

ROOT = Path(__file__).parents[1]
LOCKED: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "containers/images.lock").read_text())["images"]


def recipes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every recipe of the catalog whose image is in a registry, with the Docker reference of that image."""
    for path in sorted(ROOT.glob("plugins/*/llmbx_*/catalog/*.toml")):
        for recipe in tomllib.loads(path.read_text()).get("recipes", ()):
            if reference := recipe.get("image", {}).get("reference"):
                yield parse_reference(reference).docker, recipe


def test_the_lock_has_the_images_of_the_catalog() -> None:
    assert {name for name, _ in recipes()} == set(LOCKED)


def test_a_digest_in_the_lock_has_a_source_and_is_the_one_that_runs_pull() -> None:
    for name, recipe in recipes():
        assert recipe["image"].get("digest", "") == LOCKED[name]["digest"], f"{recipe['name']}: {name}"
    for name, entry in LOCKED.items():
        assert re.fullmatch(r"(sha256:[0-9a-f]{64})?", entry["digest"]), name
        assert bool(entry.get("source")) == bool(entry["digest"]), name


def test_the_platforms_of_an_image_are_those_of_its_recipes_gpus() -> None:
    gpus: dict[str, set[str]] = defaultdict(set)
    for name, recipe in recipes():
        gpus[name] |= {gpu for row in recipe["rows"] for gpu in row.get("gpu_types", ())}
    for name, entry in LOCKED.items():
        arm = bool(gpus[name] & {"gb200", "gb300"})
        assert entry["platforms"] == ["linux/amd64", *(["linux/arm64"] if arm else [])], name


@pytest.mark.parametrize("name", LOCKED)
def test_both_definitions_for_gpus_are_based_on_the_image_of_the_recipe(name: str) -> None:
    digest = LOCKED[name]["digest"] or None
    of = recipe_with_nsys(ImageRequest(reference=name, digest=digest))
    base = f"{name.rpartition(':')[0]}@{digest}" if digest else name
    assert f"\nFROM {base}\n" in of.dockerfile and "$BASE" not in of.dockerfile
    assert apptainer_definition(of.dockerfile).startswith(f"Bootstrap: docker\nFrom: {base}\n")
