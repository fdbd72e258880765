"""Code shared by the container runtimes: selecting the image, and planning its file before it is fetched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from shutil import which

from llmbx.api import (
    Environment,
    Image,
    ImageRequest,
    InfraError,
    Offer,
    RunSpec,
    Runtime,
    UsageError,
)

from ..naming import Reference, image_file, is_file

PREFERENCE = ("pyxis", "enroot", "apptainer", "docker")
"""The container tools in order of preference."""

FIRST_RANK = 20
"""Rank of the preferred container tool among the offers of all runtimes."""

PYTHON = "python3"
"""The interpreter in images; the images of all recipes have it on PATH."""

BUILT = "localhost/llmbx/"
"""Registry and namespace of images that llmbx builds itself."""

ARCHIVE = ".tar"
"""Suffix of a Docker archive, as `docker save` writes it."""


def tools_for(image: str) -> tuple[str, ...]:
    """The container tools that support this image (a reference or a file), in order of preference."""
    supported = {".sqsh": ("pyxis", "enroot"), ".sif": ("apptainer",)}.get(PurePath(image).suffix)
    return supported if supported and is_file(image) else PREFERENCE


class Container(Runtime):
    """Base class of the container runtimes, which offer themselves for runs with an image."""

    uses_image = True

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """An offer if the run has an image that this tool supports, else None."""
        explicit = spec.image is not None and spec.image.source == "--image"
        image = spec.image.reference if explicit and spec.image is not None else request.reference
        if image is None or self.name not in tools_for(image):
            return None
        suffix = ", for the image of --image" if explicit else ""
        reason = f"{self.name} is the first available container tool{suffix}"
        return Offer(rank=FIRST_RANK + PREFERENCE.index(self.name), reason=reason)


def wanted_reference(request: ImageRequest, runtime: str) -> str:
    """The requested image reference; for an environment without one, the image that `llmbx image build` creates.

    Raises `UsageError` if the workload has neither.
    """
    if request.reference is None and request.environment is not None:
        return built_reference(request.environment)
    if request.reference is None:
        raise UsageError(
            f"the recipe has no container image for the runtime {runtime}: pass one with --image"
        )
    return request.reference


def built_reference(environment: Environment) -> str:
    """Reference of the local image that llmbx builds from an environment; the tag is the digest of the lock."""
    return f"{BUILT}{environment.name}:{environment.lock_digest()[:12]}"


def rebuilt_reference(reference: Reference) -> str:
    """Reference of the local image that llmbx builds from an image in a registry."""
    which = reference.digest.replace(":", "-")[:19] if reference.digest else reference.tag
    return f"{BUILT}{PurePath(reference.repository).name}:{which}"


def require_importable(reference: str, runtime: str) -> None:
    """Raise `InfraError` if `reference` is an image that llmbx has to build, which cannot be imported."""
    if reference.startswith(BUILT):
        raise InfraError(
            f"the image {reference.removeprefix(BUILT)} has not been built yet: build it from the workload's "
            f"environment with `llmbx image build WORKLOAD --runtime {runtime}`"
        )


def archive(request: ImageRequest) -> Path | None:
    """The path of the Docker archive if `request` names one, else None."""
    reference = request.reference or ""
    return (
        Path(reference).expanduser().absolute()
        if is_file(reference) and reference.endswith(ARCHIVE)
        else None
    )


def planned_file(
    request: ImageRequest, install: Path, suffix: str, runtime: str, converts: bool = False
) -> Image:
    """The image with the path of its file in `install`, whether or not it exists yet.

    With `converts`, a Docker archive is converted into a file whose name includes a hash of the archive's path.
    """
    reference, source = wanted_reference(request, runtime), archive(request)
    if converts and source is not None:
        name = f"{source.stem}+{hashlib.sha256(str(source).encode()).hexdigest()[:12]}{suffix}"
        path = install / "images" / name
    else:
        path = image_file(reference, install, suffix, runtime)
    return Image(
        kind=suffix[1:], reference=reference, python=PYTHON, path=str(path), digest=request.digest
    )


def require_tool(runtime: str, missing: str | None, image: Image) -> None:
    """Raise `InfraError` if the tool is missing (`missing`: the reason), unless the image file exists already.

    An existing file can be used on compute nodes that have the tool.
    """
    if missing and not Path(image.path or "").is_file():
        hint = (
            "; import it on a compute node with `llmbx image prepare … --launcher slurm`"
            if which("srun")
            else ""
        )
        raise InfraError(f"runtime {runtime}: {missing}{hint}")


def default_variables(**values: str) -> Mapping[str, str]:
    """The variables in `values` that are not set in the user's environment."""
    return {name: value for name, value in values.items() if not os.environ.get(name)}
