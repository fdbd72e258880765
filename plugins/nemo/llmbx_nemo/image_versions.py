"""Environments for machines without a GPU with the versions inside the recipes' images."""

from __future__ import annotations

import functools
import re
from importlib import resources

from llmbx.api import Environment, RunSpec, UsageError, Value, load_environment, read_toml

PYTHONS = ("3.11",)
"""Python versions on which the images' versions were tested."""

_TAG = re.compile(r":v?(\d++\.\d++(?:\.\d++)?+)[^:/]*+$")


class ImageVersions(Value, frozen=True):
    """The packages inside images with a tag (or a tag that begins with it), and the environment that they run on.

    `files`: the digest of each file of the packages that the environment does not have.
    """

    tag: str
    environment: str
    packages: tuple[str, ...]
    files: dict[str, str] = {}


class ImagesFile(Value, frozen=True):
    """The contents of `images.toml`."""

    images: tuple[ImageVersions, ...]


@functools.cache
def image_versions() -> tuple[ImageVersions, ...]:
    """Return the versions inside every known image."""
    return read_toml(resources.files(__package__) / "images.toml", ImagesFile).images


def environment_of(spec: RunSpec) -> Environment:
    """Return the environment with the versions in the run's image; for a run without GPUs, the run's own environment.

    Raises `UsageError` if the versions inside the image are not known.
    """
    if spec.gpu_type == "cpu" and spec.environment:
        return _load(spec.environment)
    reference = spec.image.reference if spec.image else ""
    tag = _TAG.search(reference)
    versions = [v for v in image_versions() if tag and f"{tag[1]}.".startswith(f"{v.tag}.")]
    if not versions:
        tags = ", ".join(version.tag for version in image_versions())
        raise UsageError(f"the versions in the image '{reference}' are not known (known tags: {tags})")
    return overlay(versions[0])


def overlay(versions: ImageVersions) -> Environment:
    """Return the environment with an image's versions: its own if it has them, else one that is based on it."""
    base = _load(versions.environment)
    if set(versions.packages) <= {pin for step in base.steps for pin in step}:
        return base
    main = tuple(pin.partition("==")[0] for pin in versions.packages)
    return Environment(
        name=f"{versions.environment}-{versions.tag}",
        pythons=PYTHONS,
        steps=(versions.packages,),
        no_deps=(0,),
        check="import megatron.core",
        files=versions.files,
        main=(*main, *(name for name in base.main if name not in main)),
        base=base.replace(pythons=PYTHONS),
    )


def _load(name: str) -> Environment:
    return load_environment(resources.files(__package__) / "environments" / f"{name}.toml")
