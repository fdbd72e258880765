"""Base classes of the container runtimes: selecting the image, and fetching its file."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from pathlib import Path, PurePath
from shutil import which
from typing import TYPE_CHECKING

from llmbx.api import (
    Finding,
    Image,
    ImageRequest,
    InfraError,
    Offer,
    Progress,
    RunSpec,
    Runtime,
    UsageError,
)

from ..built import built_reference
from ..naming import image_file, is_file

if TYPE_CHECKING:
    from ..images.tool import FileTool

PREFERENCE = ("pyxis", "enroot", "apptainer", "docker")
"""The container tools in order of preference."""

FIRST_RANK = 20
"""Rank of the preferred container tool among the offers of all runtimes."""

PYTHON = "python3"
"""The interpreter in images; the images of all recipes have it on PATH."""

ARCHIVE = ".tar"
"""Suffix of a Docker archive, as `docker save` writes it."""


def tools_for(image: str) -> tuple[str, ...]:
    """The container tools that support this image (a reference or a file), the preferred first."""
    supported = {".sqsh": ("pyxis", "enroot"), ".sif": ("apptainer",)}
    return supported.get(PurePath(image).suffix, PREFERENCE) if is_file(image) else PREFERENCE


class Container(Runtime):
    """Base class of the container runtimes, which offer themselves for runs with an image."""

    uses_image = True

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        """An offer if the run has an image that this tool supports, else None."""
        image, hint = request.reference, ""
        if spec.image is not None and spec.image.source == "--image":
            image, hint = spec.image.reference, ", for the image of --image"
        if image is None or self.name not in tools_for(image):
            return None
        reason = f"{self.name} is the first available container tool{hint}"
        return Offer(rank=FIRST_RANK + PREFERENCE.index(self.name), reason=reason)

    def not_here(self, reason: str, fix: str) -> Finding:
        """The finding for a tool that is not installed here."""
        return Finding(rule=f"runtime {self.name}", problem=reason, fix=fix, warning=True)

    def image_reference(self, request: ImageRequest) -> str:
        """The requested image; for an environment without one, that of `llmbx image build`.

        Raises `UsageError` if the workload has neither.
        """
        if request.reference is not None:
            return request.reference
        if request.environment is not None:
            return built_reference(request.environment)
        raise UsageError(
            f"the recipe has no container image for the runtime {self.name}: pass one with --image"
        )


class FileRuntime(Container):
    """Base class of the runtimes whose images are files in the install."""

    converts = False
    """Whether the tool converts Docker archives."""

    @abstractmethod
    def file_tool(self) -> FileTool:
        """The tool that creates the files."""

    def importer_missing(self) -> str | None:
        """Why the tool that creates the files cannot be used here, or None."""
        return self.available()

    def plan(self, request: ImageRequest, install: Path) -> Image:
        """The image with the path of its file, whether or not that exists yet."""
        reference, suffix = self.image_reference(request), self.file_tool().suffix
        path = self._converted(request, install) or image_file(
            reference, install, suffix, self.name
        )
        return Image(
            kind=suffix[1:],
            reference=reference,
            python=PYTHON,
            path=str(path),
            digest=request.digest,
        )

    def prepare(
        self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
    ) -> Image:
        """Find the file, import it from a registry, or convert it from a Docker archive.

        An existing file does not need the tool, which only compute nodes may have.
        """
        from ..images.files import NeededFile, ensure_file
        from ..images.store import ImageStore

        image = self.plan(request, install)
        missing = self.importer_missing()
        if missing and not Path(image.path or "").is_file():
            hint = ""
            if which("srun"):
                hint = "; import it on a compute node with `llmbx image prepare … --launcher slurm`"
            raise InfraError(f"runtime {self.name}: {missing}{hint}")
        need = NeededFile(
            image=image,
            request=request,
            store=ImageStore(install),
            progress=progress,
            offline=offline,
            tool=self.file_tool(),
            source=archive(request) if self.converts else None,
        )
        return ensure_file(need)

    def _converted(self, request: ImageRequest, install: Path) -> Path | None:
        """The file made from a Docker archive; its name has a hash of the archive's path."""
        source = archive(request)
        if source is None or not self.converts:
            return None
        identity = hashlib.sha256(str(source).encode()).hexdigest()[:12]
        return install / "images" / f"{source.stem}+{identity}{self.file_tool().suffix}"


def archive(request: ImageRequest) -> Path | None:
    """The path of the Docker archive if `request` names one, else None."""
    reference = request.reference or ""
    if not is_file(reference) or not reference.endswith(ARCHIVE):
        return None
    return Path(reference).expanduser().absolute()


def default_variables(**values: str) -> dict[str, str]:
    """The variables in `values` that are not set in the user's environment."""
    return {name: value for name, value in values.items() if not os.environ.get(name)}
