"""Import a bundle, which comes from elsewhere: everything is checked before anything is in place.

The headers of the whole file are compared with the manifest first. The files are then written to a
temporary folder and verified, and only after the last one moved to their final names; an import
that fails leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from llmbx.api import (
    NOT_JSON,
    InfraError,
    Progress,
    UsageError,
    decode,
    disk_errors,
    format_bytes,
)

from ..archives import TarMember, package_problem, tar_members
from ..containers.images.store import ImageStore
from ..containers.images.verify import problem
from ..space import require_space
from .manifest import DOCKER, IMAGES, NAME, WHEELS, Manifest, Member, is_allowed
from .staging import Staging

LARGEST_MANIFEST = 1 << 26
"""Largest manifest in bytes: that of `archives.MOST_MEMBERS` files has about half."""

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 22


def import_bundle(bundle: Path, install: Path, accept: bool, progress: Progress) -> Manifest:
    """Import all files of a bundle into the install.

    Raises `UsageError` if the file is no bundle or has something that llmbx does not export,
    `InfraError` if it is damaged or a digest changed. Nothing is changed then, except for images
    that Docker has loaded already.
    """
    with disk_errors(str(install)), bundle.open("rb") as file:
        reader = _Reader(bundle, file, progress)
        manifest = reader.manifest
        need = f"bundle {bundle.name}: the import needs about {format_bytes(reader.size)}"
        require_space(install, reader.size, need, "free some space (`llmbx image prune`)")
        _check_lock(manifest, install, accept)
        with Staging(install) as staging:
            for member, source in reader.files():
                temporary = staging.add(member)
                reader.copy(source, temporary, member)
            staging.finish()
    for key, entry in manifest.locked.items():
        ImageStore(install).remember(key, entry.digest, entry.files)
    return manifest


def _check_lock(manifest: Manifest, install: Path, accept: bool) -> None:
    """Raise `InfraError` if the install knows an image of the bundle by another digest."""
    store = ImageStore(install)
    for key, entry in manifest.locked.items():
        store.check_digest(key, entry.digest, accept)
        if entry.digest is None:
            for name, sha256 in entry.files.items():
                store.check_file(key, name, sha256, accept)


class _Reader:
    """An open bundle whose manifest was compared with its headers; no content is read yet."""

    def __init__(self, bundle: Path, file: IO[bytes], progress: Progress) -> None:
        self.bundle, self.file, self.progress = bundle, file, progress
        first, *self.places = self._headers()
        self.manifest = self._read_manifest(first)
        self._compare()
        self.size = sum(place.size for place in self.places)

    def _refused(self, reason: str) -> UsageError:
        return UsageError(f"{self.bundle} was refused: {reason}")

    def _headers(self) -> list[TarMember]:
        if self.file.read(2) == _GZIP:
            expected = "a bundle of `llmbx image export` is a plain tar file"
            raise UsageError(f"{self.bundle} is compressed: {expected}")
        self.file.seek(0)
        try:
            headers = list(tar_members(self.file))
            if not headers:
                raise EOFError("it is empty")
        except UsageError as error:
            raise self._refused(str(error)) from None
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise InfraError(f"{self.bundle} is not a complete bundle: {error}") from None
        return headers

    def _read_manifest(self, first: TarMember) -> Manifest:
        """The manifest. Raises `UsageError` for a path or value that no export writes."""
        foreign = UsageError(f"{self.bundle} is not a bundle of `llmbx image export`")
        if first.path != NAME:
            raise foreign
        if first.size > LARGEST_MANIFEST:
            limit = f"{first.size:,} bytes (limit: {LARGEST_MANIFEST:,})"
            raise self._refused(f"its manifest has {limit}")
        self.file.seek(first.offset)
        try:
            manifest = decode(self.file.read(first.size), Manifest)
        except NOT_JSON:
            raise foreign from None
        for member in manifest.members:
            if not is_allowed(member.path):
                reason = f"{member.path!r}, which is not an allowed path in an install"
                raise UsageError(f"{self.bundle} contains {reason}")
            if not member.has_digest:
                raise self._refused(f"the manifest has no valid sha256 of {member.path}")
        return manifest

    def _compare(self) -> None:
        """Raise an error unless the bundle has exactly the manifest's files, in order and size."""
        members, places = self.manifest.members, self.places
        for index, member in enumerate(members):
            if index >= len(places) or places[index].path != member.path:
                raise InfraError(f"{self.bundle} is incomplete: {member.path} is missing")
            size = places[index].size
            if size != member.size:
                sizes = f"has {size:,} bytes, and the manifest declares {member.size:,}"
                raise self._refused(f"{member.path} {sizes}")
        if len(places) > len(members):
            raise self._refused(f"{places[len(members)].path!r} is not in its manifest")

    def files(self) -> Iterator[tuple[Member, TarMember]]:
        """Each file that is imported, with its place in the bundle."""
        for member, source in zip(self.manifest.members, self.places, strict=True):
            name = self.bundle.name
            if member.imported:
                self.progress(f"{name}: importing {member.path} ({format_bytes(member.size)})")
                yield member, source
            else:
                reason = "only hub/ is imported from .cache/huggingface"
                self.progress(f"{name}: skipping {member.path}: {reason}")

    def copy(self, source: TarMember, target: Path, member: Member) -> None:
        """Write one file and verify it.

        Raises `InfraError` if its checksum is not the manifest's, `UsageError` for its content.
        """
        hashed, left = hashlib.sha256(), source.size
        self.file.seek(source.offset)
        with target.open("wb") as output:
            while left and (chunk := self.file.read(min(_CHUNK, left))):
                left -= len(chunk)
                hashed.update(chunk)
                output.write(chunk)
        sha256 = f"sha256:{hashed.hexdigest()}"
        if sha256 != member.sha256:
            digests = f"expected {member.sha256}, got {sha256}"
            raise InfraError(f"{self.bundle} is damaged: {member.path}: {digests}")
        if reason := _content_problem(member, target):
            raise self._refused(f"{member.path}: {reason}")


def _content_problem(member: Member, content: Path) -> str | None:
    """Why a file must not be used, by its kind; None if it may be used."""
    if member.folder == WHEELS:
        return package_problem(content)
    if member.folder == IMAGES:
        return problem(content)
    return _docker_archive_problem(content) if member.folder == DOCKER else None


def _docker_archive_problem(content: Path) -> str | None:
    try:
        with content.open("rb") as file:
            names = {member.path for member in tar_members(file, folders=True, links=True)}
    except (UsageError, tarfile.TarError, ValueError) as error:
        return str(error)
    return None if "manifest.json" in names else "it is not an archive of `docker save`"
