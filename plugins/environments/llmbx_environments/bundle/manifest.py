"""What a bundle contains, and which paths it may have."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from llmbx.api import Value

from ..archives import path_problem
from ..containers.images.inventory import SUFFIXES
from ..containers.images.store import Locked, Stamp

NAME = "llmbx-bundle.json"

DOCKER = "docker"
"""Folder of a bundle for archives of images from the Docker daemon."""

IMAGES, WHEELS = "images", "wheels"

CACHE = ".cache/"

TOKENIZERS = ".cache/huggingface/hub"
"""The Hugging Face Hub cache. Other files of the Hugging Face folder are neither exported nor
imported, because a login stores its token there."""

PACKAGES = (".whl", ".tar.gz", ".zip")
"""Suffixes of the package files that pip accepts with --find-links."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Member(Value, frozen=True):
    """One file: its path in the install, sha256 and size; for an image its stamp and lock key."""

    path: str
    sha256: str
    size: int
    stamp: Stamp | None = None
    key: str | None = None

    @property
    def folder(self) -> str:
        """The first part of its path, which says what it is."""
        return self.path.partition("/")[0]

    @property
    def imported(self) -> bool:
        """Whether it is imported; earlier versions exported the whole Hugging Face folder."""
        in_cache = self.path.startswith(CACHE)
        return not in_cache or PurePosixPath(self.path).is_relative_to(TOKENIZERS)

    @property
    def has_digest(self) -> bool:
        """Whether its sha256 has the right form, and is that of its stamp."""
        stamped = self.stamp.sha256 if self.stamp else None
        return bool(_DIGEST.fullmatch(self.sha256)) and stamped in (None, self.sha256)


class Manifest(Value, frozen=True):
    """The contents of a bundle: its files, and their entries in `images.lock`."""

    members: tuple[Member, ...]
    locked: dict[str, Locked] = {}
    schema_version: int = 1


def is_allowed(path: str) -> bool:
    """Whether an export may write this path."""
    if path_problem(path) or str(PurePosixPath(path)) != path:
        return False
    folder, _, name = path.partition("/")
    hidden = any(part.startswith(".") for part in name.split("/"))
    if folder in (IMAGES, DOCKER):
        suffixes = SUFFIXES if folder == IMAGES else (".tar",)
        return "/" not in name and not hidden and PurePosixPath(name).suffix in suffixes
    if folder == WHEELS:
        return not hidden and name.endswith(PACKAGES)
    return path.startswith(CACHE)
