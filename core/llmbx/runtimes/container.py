"""What the container runtimes share: which image is asked for, and what is known of it before it is fetched."""

from __future__ import annotations

from pathlib import Path

from ..errors import InfraError, UsageError
from ..model import Image, ImageRequest
from .naming import image_file

PYTHON = "python3"
"""The interpreter inside images: every recipe's image has it on PATH."""


def wanted_reference(request: ImageRequest, runtime: str) -> str:
    """The reference that is asked for. Raises `UsageError` when the workload names no image."""
    if request.reference is None:
        raise UsageError(f"this recipe names no container image for the runtime {runtime}: give one with --image")
    return request.reference


def planned_file(request: ImageRequest, install: Path, suffix: str, runtime: str) -> Image:
    """The image as it will lie in `install`, whether or not it is there yet."""
    reference = wanted_reference(request, runtime)
    path = image_file(reference, install, suffix, runtime)
    return Image(kind=suffix[1:], reference=reference, python=PYTHON, path=str(path), digest=request.digest)


def present_file(image: Image, command: str) -> Image:
    """`image`, if its file is there. Raises `InfraError` that says which `command` makes it."""
    if image.path is None or not Path(image.path).is_file():
        raise InfraError(f"the image {image.path} is not there yet: make it with `{command}`")
    return image
