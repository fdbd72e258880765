"""References of the images that llmbx builds, which no registry has."""

from __future__ import annotations

from pathlib import PurePath

from llmbx.api import Environment, InfraError

from ..lock_file import lock_digest, require_valid
from .naming import Reference

BUILT = "localhost/llmbx/"
"""Registry and namespace of images that llmbx builds itself."""


def built_reference(environment: Environment) -> str:
    """Reference of the image of an environment; the tag is the digest of its lock."""
    require_valid(environment, f"environment {environment.name}")
    return f"{BUILT}{environment.name}:{lock_digest(environment)[:12]}"


def rebuilt_reference(reference: Reference) -> str:
    """Reference of the image that llmbx builds from an image in a registry."""
    version = reference.digest.replace(":", "-")[:19] if reference.digest else reference.tag
    return f"{BUILT}{PurePath(reference.repository).name}:{version}"


def require_importable(reference: str, runtime: str) -> None:
    """Raise `InfraError` if `reference` is an image that has to be built."""
    if reference.startswith(BUILT):
        raise InfraError(
            f"the image {reference.removeprefix(BUILT)} has not been built yet: build it from the "
            f"workload's environment with `llmbx image build WORKLOAD --runtime {runtime}`"
        )
