"""Parse image references, convert them between tools, and derive image file names.

File names follow the recipes: `nvidia+nemo+25.04.01.sqsh` for `nvcr.io#nvidia/nemo:25.04.01`
(Llama 4 Maverick recipe), and the date of a tag (2024-12-09) with dots (Llama 2 recipe).
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

from llmbx.api import UsageError, Value

SUFFIXES = {
    ".sqsh": "enroot and pyxis",
    ".sif": "apptainer",
    ".tar": "docker and apptainer",
}
"""Suffixes of the image files that `--image` accepts, with the runtimes that support them."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What registries call processors, by what `uname -m` prints."""

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(f"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


class Reference(Value, frozen=True):
    """An image in a registry: `nvcr.io`, `nvidia/nemo`, and a tag, a digest (preferred) or both.

    `machine` is the processor that it is for (`uname -m`); None: this machine's.
    """

    registry: str
    repository: str
    tag: str = "latest"
    digest: str | None = None
    machine: str | None = None

    @property
    def other_machine(self) -> str | None:
        """The processor that the image is for, if it is not this machine's."""
        return None if self.machine in (None, platform.machine()) else self.machine

    @property
    def docker(self) -> str:
        """The reference for Docker and Apptainer: `nvcr.io/nvidia/nemo:25.04.01`."""
        return f"{self.registry}/{self.repository}{self._version}"

    @property
    def enroot(self) -> str:
        """The reference for enroot and Pyxis: `nvcr.io#nvidia/nemo:25.04.01`."""
        return f"{self.registry}#{self.repository}{self._version}"

    @property
    def _version(self) -> str:
        return f"@{self.digest}" if self.digest else f":{self.tag}"


def parse_reference(text: str) -> Reference:
    """Parse a reference of enroot or Docker, with or without `docker://`. Raises `UsageError`."""
    name, _, digest = text.removeprefix("docker://").partition("@")
    registry, path = _split_registry(name)
    repository, _, tag = path.partition(":")
    if registry == "docker.io" and repository and "/" not in repository:
        repository = f"library/{repository}"
    valid = (
        registry
        and _REPOSITORY.fullmatch(repository)
        and (not tag or _TAG.fullmatch(tag))
        and (not digest or _DIGEST.fullmatch(digest))
    )
    if not valid:
        raise UsageError(
            f"'{text}' is not an image reference: expected a form like "
            f"nvcr.io#nvidia/nemo:25.04.01 or …@sha256:…"
        )
    return Reference(
        registry=registry, repository=repository, tag=tag or "latest", digest=digest or None
    )


def _split_registry(name: str) -> tuple[str, str]:
    """The registry of a reference, and the rest."""
    if "#" in name:
        registry, _, path = name.partition("#")
        return registry, path
    head, _, path = name.partition("/")
    if path and ("." in head or ":" in head or head == "localhost"):
        return head, path
    return "docker.io", name


def is_file(reference: str) -> bool:
    """Whether `reference` is the path of an image file, not an image in a registry."""
    return reference.startswith(("/", "./", "../", "~")) or Path(reference).suffix in SUFFIXES


def file_name(reference: str, suffix: str) -> str:
    """The image's file name, such as `nvidia+nemo+25.04.01.sqsh`, without the registry."""
    image = parse_reference(reference)
    version = _DATE.sub(r"\1.\2.\3", image.tag)
    if image.digest:
        version = f"sha256.{image.digest[7:19]}"
    name = image.repository.removeprefix("library/").replace("/", "+")
    return f"{name}+{version}{suffix}"


def image_file(reference: str, install: Path, suffix: str, runtime: str) -> Path:
    """The path of the image file for `runtime`: the user's file, or one in the install.

    Raises `UsageError` if `reference` is a file that this runtime does not support.
    """
    if not is_file(reference):
        return install / "images" / file_name(reference, suffix)
    path = Path(reference).expanduser().absolute()
    if path.suffix != suffix:
        runtimes = SUFFIXES.get(path.suffix)
        hint = f"supported suffixes: {', '.join(SUFFIXES)}"
        if runtimes:
            hint = f"{path.suffix} files are for {runtimes}"
        raise UsageError(f"{runtime} cannot start {path}: expected a {suffix} file ({hint})")
    return path
