"""Write a bundle."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from llmbx.api import InfraError, Progress, UsageError, Value, disk_errors, format_bytes

from ..archives import package_problem
from ..containers.images.inventory import Entry
from ..containers.images.store import ImageStore
from ..containers.images.verify import sha256_file
from .manifest import DOCKER, IMAGES, NAME, PACKAGES, TOKENIZERS, WHEELS, Manifest, Member


class _File(Value, frozen=True):
    """One file to export, with its path in the bundle; `entry`: the image that it is."""

    source: Path
    path: str
    entry: Entry | None = None


def export(
    bundle: Path,
    images: Sequence[Entry],
    install: Path,
    progress: Progress,
    wheels: Sequence[Path] = (),
) -> Manifest:
    """Write a bundle of `images`, the wheels and tokenizers of the install, and further `wheels`.

    Raises `UsageError` if the bundle exists or would be empty, `InfraError` if an image is not
    intact.
    """
    if bundle.exists():
        raise UsageError(f"{bundle} exists already: choose another file name")
    prefix, folder = f".{bundle.name}.", bundle.parent
    with (
        disk_errors(str(bundle)),
        tempfile.TemporaryDirectory(prefix=prefix, dir=folder) as scratch,
    ):
        sources = (
            _wheels(wheels),
            _image_files(images, Path(scratch), progress),
            _packages(install),
            _tokenizers(install),
        )
        files = {file.path: file for source in sources for file in source}
        if not files:
            raise UsageError("nothing to export: import an image first (`llmbx image prepare`)")
        manifest = _manifest(list(files.values()), install, progress)
        temporary = Path(scratch) / "bundle"
        with tarfile.open(temporary, "w", dereference=True) as archive:  # imports accept no links
            _add_manifest(archive, manifest)
            for member in manifest.members:
                progress(f"{bundle.name}: adding {member.path} ({format_bytes(member.size)})")
                archive.add(files[member.path].source, member.path)
        temporary.replace(bundle)
    return manifest


def _wheels(wheels: Sequence[Path]) -> Iterator[_File]:
    for path in wheels:
        yield _File(source=path, path=f"{WHEELS}/{path.name}")


def _image_files(images: Sequence[Entry], scratch: Path, progress: Progress) -> Iterator[_File]:
    for entry in images:
        if not entry.good:
            raise InfraError(f"image {entry.name} cannot be exported: {entry.state}")
        if entry.path is None:
            yield _saved(entry, scratch, progress)
        elif entry.kind != "tar":
            yield _File(source=Path(entry.path), path=f"{IMAGES}/{entry.name}", entry=entry)


def _saved(entry: Entry, scratch: Path, progress: Progress) -> _File:
    """A Docker image, saved as an archive in `scratch`."""
    from ..containers.runtimes.docker_store import save

    name = f"{hashlib.sha256(entry.name.encode()).hexdigest()[:12]}.tar"
    progress(f"saving {entry.reference} from Docker")
    save(entry.reference or "", scratch / name)
    return _File(source=scratch / name, path=f"{DOCKER}/{name}", entry=entry)


def _packages(install: Path) -> Iterator[_File]:
    for path in sorted((install / WHEELS).rglob("*")):
        name = path.relative_to(install)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and path.name.endswith(PACKAGES) and not hidden:
            if problem := package_problem(path):
                raise UsageError(f"{path} cannot be exported: {problem}")
            yield _File(source=path.resolve(), path=str(name))


def _tokenizers(install: Path) -> Iterator[_File]:
    cache = (install / TOKENIZERS).resolve()
    for path in sorted((install / TOKENIZERS).rglob("*")):
        # Snapshots are links into the cache. A link that leaves the cache could point to a token.
        if path.is_file() and path.resolve().is_relative_to(cache):
            yield _File(source=path.resolve(), path=str(path.relative_to(install)))


def _manifest(files: Sequence[_File], install: Path, progress: Progress) -> Manifest:
    members = tuple(_member(file, install, progress) for file in files)
    locked = ImageStore(install).lock().images
    keys = sorted({member.key for member in members if member.key})
    return Manifest(members=members, locked={key: locked[key] for key in keys if key in locked})


def _member(file: _File, install: Path, progress: Progress) -> Member:
    entry, source = file.entry, file.source
    stamp = ImageStore(install).stamp(entry.path) if entry and entry.path else None
    sha256 = sha256_file(source, progress)
    if stamp and stamp.sha256 not in (None, sha256):
        reason = f"expected {stamp.sha256}, got {sha256}"
        raise InfraError(f"image {source.name} cannot be exported: {reason}")
    return Member(
        path=file.path,
        sha256=sha256,
        size=source.stat().st_size,
        stamp=stamp,
        key=entry.reference if entry else None,
    )


def _add_manifest(archive: tarfile.TarFile, manifest: Manifest) -> None:
    content = msgspec.json.encode(manifest)
    info = tarfile.TarInfo(NAME)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))
