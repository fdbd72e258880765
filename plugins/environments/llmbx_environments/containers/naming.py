"""Parse image references, convert them between tools, and derive image file names. Pure functions.

File names follow the recipes: `$LLMB_INSTALL/images/nvidia+nemo+25.04.01.sqsh` for `nvcr.io#nvidia/nemo:25.04.01`
(Llama 4 Maverick recipe). The Llama 2 recipe writes the date of a tag (2024-12-09) with dots in the file name.
"""

from __future__ import annotations

import re
from pathlib import Path

from llmbx.api import UsageError, Value

SUFFIXES = {".sqsh": "enroot and pyxis", ".sif": "apptainer", ".tar": "docker and apptainer"}
"""Suffixes of the image files that `--image` accepts, with the runtimes that support them."""

_REPOSITORY = re.compile(
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


class Reference(Value, frozen=True):
    """An image in a registry: `nvcr.io`, `nvidia/nemo`, and a tag or a digest or both; the digest has precedence."""

    registry: str
    repository: str
    tag: str = "latest"
    digest: str | None = None

    @property
    def docker(self) -> str:
        """The reference for Docker and Apptainer: `nvcr.io/nvidia/nemo:25.04.01`."""
        return f"{self.registry}/{self.repository}{self._which}"

    @property
    def enroot(self) -> str:
        """The reference for enroot and Pyxis: `nvcr.io#nvidia/nemo:25.04.01`."""
        return f"{self.registry}#{self.repository}{self._which}"

    @property
    def _which(self) -> str:
        return f"@{self.digest}" if self.digest else f":{self.tag}"


def parse_reference(text: str) -> Reference:
    """Parse a reference of enroot or Docker, with or without `docker://`. Raises `UsageError` if it is invalid."""
    bare = text.removeprefix("docker://")
    bare, _, digest = bare.partition("@")
    if "#" in bare:
        registry, _, rest = bare.partition("#")
    else:
        head, _, rest = bare.partition("/")
        has_registry = bool(rest) and ("." in head or ":" in head or head == "localhost")
        registry, rest = (head, rest) if has_registry else ("docker.io", bare)
    repository, _, tag = rest.partition(":")
    if registry == "docker.io" and repository and "/" not in repository:
        repository = f"library/{repository}"
    valid = registry and _REPOSITORY.fullmatch(repository) and (not tag or _TAG.fullmatch(tag))
    if not valid or (digest and not _DIGEST.fullmatch(digest)):
        raise UsageError(
            f"'{text}' is not an image reference: expected a form like nvcr.io#nvidia/nemo:25.04.01 or …@sha256:…"
        )
    return Reference(
        registry=registry, repository=repository, tag=tag or "latest", digest=digest or None
    )


def is_file(reference: str) -> bool:
    """Whether `reference` is the path of an image file, not an image in a registry."""
    return reference.startswith(("/", "./", "../", "~")) or Path(reference).suffix in SUFFIXES


def file_name(reference: str, suffix: str) -> str:
    """The image's file name, such as `nvidia+nemo+25.04.01.sqsh`: no registry, parts joined by `+`, dates with dots."""
    found = parse_reference(reference)
    which = f"sha256.{found.digest[7:19]}" if found.digest else _DATE.sub(r"\1.\2.\3", found.tag)
    return f"{found.repository.removeprefix('library/').replace('/', '+')}+{which}{suffix}"


def image_file(reference: str, install: Path, suffix: str, runtime: str) -> Path:
    """The path of the image file for `runtime`: the file itself, or its path in `$LLMB_INSTALL/images`.

    Raises `UsageError` if `reference` is a file that this runtime does not support.
    """
    if not is_file(reference):
        return install / "images" / file_name(reference, suffix)
    path = Path(reference).expanduser().absolute()
    if path.suffix != suffix:
        wanted = SUFFIXES.get(path.suffix)
        hint = (
            f"{path.suffix} files are for {wanted}"
            if wanted
            else f"supported suffixes: {', '.join(SUFFIXES)}"
        )
        raise UsageError(f"{runtime} cannot start {path}: expected a {suffix} file ({hint})")
    return path
