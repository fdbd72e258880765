"""Bundles: images, wheels and tokenizers of an install in one file, for machines without network access.

A bundle is a plain tar file. Its first member is the manifest: the path in the install, the sha256 and the size of each
file, and the entries of `images.lock`. `unpack` imports them.
"""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from llmbx.api import InfraError, Progress, UsageError, Value, disk_errors, format_bytes

from ...archives import package_problem
from .inventory import Entry
from .lockfile import Locked, read_lock
from .stamps import Stamp, read_stamp
from .verify import sha256_file

MANIFEST = "llmbx-bundle.json"
DOCKER = "docker"
"""Folder of a bundle for archives of images from the Docker daemon."""

WHEELS, TOKENIZERS = "wheels", ".cache/huggingface/hub"
"""Folders of an install that are exported with its images: wheels, and the Hugging Face Hub cache. Other files of the
Hugging Face folder are not exported, because a login stores its token there."""

PACKAGES = (".whl", ".tar.gz", ".zip")
"""Suffixes of the package files that pip accepts with --find-links."""


class Member(Value, frozen=True):
    """One file: its path in the install, sha256 and size in bytes; for an image also its stamp and key in the lock."""

    path: str
    sha256: str
    size: int
    stamp: Stamp | None = None
    key: str | None = None


class Manifest(Value, frozen=True):
    """The contents of a bundle: its files, and their entries in `images.lock`."""

    members: tuple[Member, ...]
    locked: dict[str, Locked] = {}
    schema_version: int = 1


def export(
    bundle: Path,
    chosen: Sequence[Entry],
    install: Path,
    progress: Progress,
    wheels: Sequence[Path] = (),
) -> Manifest:
    """Write a bundle of the images `chosen`, the wheels and tokenizers of the install, and additional `wheels`.

    Raises `UsageError` if the bundle exists or would be empty, `InfraError` if an image is not intact.
    """
    if bundle.exists():
        raise UsageError(f"{bundle} exists already: choose another file name")
    with (
        disk_errors(str(bundle)),
        tempfile.TemporaryDirectory(prefix=f".{bundle.name}.", dir=bundle.parent) as scratch,
    ):
        files = [*_image_files(chosen, Path(scratch), progress), *_extra_files(install)]
        names = {name for _, name, _ in files}
        files += [
            (path, name, None) for path in wheels if (name := f"wheels/{path.name}") not in names
        ]
        if not files:
            raise UsageError("nothing to export: import an image first (`llmbx image prepare`)")
        members = tuple(
            _member(path, name, entry, install, progress) for path, name, entry in files
        )
        lock = read_lock(install).images
        keys = {member.key for member in members if member.key}
        manifest = Manifest(
            members=members, locked={key: lock[key] for key in sorted(keys) if key in lock}
        )
        temporary = Path(scratch) / "bundle"
        with tarfile.open(
            temporary, "w", dereference=True
        ) as archive:  # an import accepts no links
            _add_bytes(archive, MANIFEST, msgspec.json.encode(manifest))
            for (path, _, _), member in zip(files, members, strict=True):
                progress(f"{bundle.name}: adding {member.path} ({format_bytes(member.size)})")
                archive.add(path, member.path)
        temporary.replace(bundle)
    return manifest


def _image_files(
    chosen: Sequence[Entry], scratch: Path, progress: Progress
) -> Iterator[tuple[Path, str, Entry | None]]:
    for entry in chosen:
        if not entry.good:
            raise InfraError(f"image {entry.name} cannot be exported: {entry.state}")
        if entry.path is None:
            from ..runtimes.docker_store import save

            name = f"{DOCKER}/{hashlib.sha256(entry.name.encode()).hexdigest()[:12]}.tar"
            archive = scratch / PurePosixPath(name).name
            progress(f"saving {entry.reference} from Docker")
            save(entry.reference or "", archive)
            yield archive, name, entry
        elif entry.kind != "tar":
            yield Path(entry.path), f"images/{entry.name}", entry


def _extra_files(install: Path) -> Iterator[tuple[Path, str, None]]:
    for path in sorted((install / WHEELS).rglob("*")):
        name = path.relative_to(install)
        if (
            path.is_file()
            and path.name.endswith(PACKAGES)
            and not any(part.startswith(".") for part in name.parts)
        ):
            if problem := package_problem(path):
                raise UsageError(f"{path} cannot be exported: {problem}")
            yield path.resolve(), str(name), None
    cache = (install / TOKENIZERS).resolve()
    for path in sorted((install / TOKENIZERS).rglob("*")):
        # Snapshots are links into the cache. A link that leaves the cache could point to a token.
        if path.is_file() and path.resolve().is_relative_to(cache):
            yield path.resolve(), str(path.relative_to(install)), None


def _member(
    path: Path, name: str, entry: Entry | None, install: Path, progress: Progress
) -> Member:
    stamp = read_stamp(entry.path, install) if entry and entry.path else None
    sha256 = sha256_file(path, progress)
    if stamp and stamp.sha256 and stamp.sha256 != sha256:
        raise InfraError(
            f"image {path.name} cannot be exported: expected {stamp.sha256}, got {sha256}"
        )
    key = entry.reference if entry else None
    return Member(path=name, sha256=sha256, size=path.stat().st_size, stamp=stamp, key=key)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    import io

    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))
