"""What the container runtimes share: which image is asked for, and what is known of it before it is fetched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from shutil import which

from ..catalog.environments import lock_digest
from ..errors import InfraError, UsageError
from ..model import Environment, Image, ImageRequest
from .naming import image_file, is_file

PYTHON = "python3"
"""The interpreter inside images: every recipe's image has it on PATH."""

BUILT = "localhost/llmbx/"
"""Where images stand that llmbx builds itself."""

ARCHIVE = ".tar"
"""A Docker archive, as `docker save` writes it."""


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
