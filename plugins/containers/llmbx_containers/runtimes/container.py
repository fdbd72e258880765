"""What the container runtimes share: which image is asked for, and what is known of it before it is fetched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from shutil import which

from llmbx.catalog.environments import lock_digest
from llmbx.errors import InfraError, UsageError
from llmbx.model import Environment, Image, ImageRequest, RunSpec
from llmbx.runtimes.base import Offer

from ..naming import image_file, is_file

PREFERENCE = ("pyxis", "enroot", "apptainer", "docker")
"""The container tools in order of preference."""

FIRST_RANK = 20
"""The rank of the first container tool among all offers."""

PYTHON = "python3"
"""The interpreter inside images: every recipe's image has it on PATH."""

BUILT = "localhost/llmbx/"
"""Where images stand that llmbx builds itself."""

ARCHIVE = ".tar"
"""A Docker archive, as `docker save` writes it."""


def tools_for(image: str) -> tuple[str, ...]:
    """The container tools that take this image (a reference or a file), in order of preference."""
    fitting = {".sqsh": ("pyxis", "enroot"), ".sif": ("apptainer",)}.get(PurePath(image).suffix)
    return fitting if fitting and is_file(image) else PREFERENCE


class Container:
    """What all container runtimes have: they start images, and offer themselves for runs that have one."""

    name = ""
    uses_image = True
    shares_host_files = False

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """For an image that this tool can start."""
        asked = spec.image is not None and spec.image.source == "--image"
        image = spec.image.reference if asked and spec.image is not None else request.reference
        if image is None or self.name not in tools_for(image):
            return None
        suffix = ", for the image of --image" if asked else ""
        reason = f"{self.name} is the first container tool that works here{suffix}"
        return Offer(rank=FIRST_RANK + PREFERENCE.index(self.name), reason=reason)


def wanted_reference(request: ImageRequest, runtime: str) -> str:
    """The reference that is asked for; of an environment alone, the image that `llmbx image build` makes of it.

    Raises `UsageError` when the workload names neither.
    """
    if request.reference is None and request.environment is not None:
        return built_reference(request.environment)
    if request.reference is None:
        raise UsageError(f"this recipe names no container image for the runtime {runtime}: give one with --image")
    return request.reference


def built_reference(environment: Environment) -> str:
    """The image that llmbx itself makes of an environment: named after its lock, in no registry."""
    return f"{BUILT}{environment.name}:{lock_digest(environment)[:12]}"


def require_importable(reference: str, runtime: str) -> None:
    """Raise `InfraError` for an image that is built and not imported."""
    if reference.startswith(BUILT):
        raise InfraError(
            f"the image {reference.removeprefix(BUILT)} has not been built yet: `llmbx image build WORKLOAD --runtime "
            f"{runtime}` makes it of the workload's environment"
        )


def archive(request: ImageRequest) -> Path | None:
    """The Docker archive that `request` names, if it names one."""
    reference = request.reference or ""
    return Path(reference).expanduser().absolute() if is_file(reference) and reference.endswith(ARCHIVE) else None


def planned_file(request: ImageRequest, install: Path, suffix: str, runtime: str, converts: bool = False) -> Image:
    """The image as it will lie in `install`, whether or not it is there yet.

    With `converts` a Docker archive is made into a file there too; its name tells archives of one name apart.
    """
    reference, source = wanted_reference(request, runtime), archive(request)
    if converts and source is not None:
        name = f"{source.stem}+{hashlib.sha256(str(source).encode()).hexdigest()[:12]}{suffix}"
        path = install / "images" / name
    else:
        path = image_file(reference, install, suffix, runtime)
    return Image(kind=suffix[1:], reference=reference, python=PYTHON, path=str(path), digest=request.digest)


def require_tool(runtime: str, missing: str | None, image: Image) -> None:
    """Raise `InfraError` where the tool is `missing` (why), unless the image's file is here for nodes that have it."""
    if missing and not Path(image.path or "").is_file():
        elsewhere = "; `llmbx image prepare … --launcher slurm` imports on a node that has it" if which("srun") else ""
        raise InfraError(f"runtime {runtime}: {missing}{elsewhere}")


def default_variables(**values: str) -> Mapping[str, str]:
    """Those of `values` that the user has not set."""
    return {name: value for name, value in values.items() if not os.environ.get(name)}
