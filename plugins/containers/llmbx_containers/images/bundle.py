"""Bundles: images, wheels and tokenizers of an install in one file, with checksums, for machines without a network.

A bundle is a plain tar file. Its first member says what follows: path in the install, sha256 and size of each file, and
the entries of `images.lock`. Importing checks every byte before a file gets its name.
"""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from llmbx.cli.words import size
from llmbx.codec import decode
from llmbx.errors import InfraError, UsageError
from llmbx.files import disk_errors
from llmbx.model import Value
from llmbx.runtimes.base import Progress
from llmbx.toml_file import NOT_JSON

from .disk import require_room
from .inventory import Entry
from .lockfile import Locked, check_locked, read_lock, remember
from .stamps import Stamp, read_stamp, with_identity, write_stamp
from .verify import sha256_file

MANIFEST = "llmbx-bundle.json"
STORED = "docker"
"""Folder in a bundle of the archives of images from a daemon's store."""

WHEELS, TOKENIZERS = "wheels", ".cache/huggingface/hub"
"""Folders of an install that go with its images: packages for environments, and the model hub's cache of files. Nothing
else of the hub's folder does: a login leaves its token beside the cache."""

PACKAGES = (".whl", ".tar.gz", ".zip")
"""What pip takes from a folder of wheels."""

PLACES = (("images",), (STORED,), (WHEELS,), (".cache",))
"""The first folders of what a bundle may hold."""

_CHUNK = 1 << 22


class Member(Value, frozen=True):
    """One file: its path in the install, what it must be, and for an image its stamp and its key in the lock."""

    path: str
    sha256: str
    size: int
    stamp: Stamp | None = None
    key: str | None = None


class Manifest(Value, frozen=True):
    """What a bundle holds."""

    members: tuple[Member, ...]
    locked: dict[str, Locked] = {}
    schema_version: int = 1


def export(
    bundle: Path, chosen: Sequence[Entry], install: Path, progress: Progress, wheels: Sequence[Path] = ()
) -> Manifest:
    """Write a bundle of the images `chosen`, the install's extras, and `wheels` from elsewhere.

    Raises `InfraError` and `UsageError`.
    """
    if bundle.exists():
        raise UsageError(f"{bundle} exists: name another file")
    with disk_errors(str(bundle)), tempfile.TemporaryDirectory(prefix=f".{bundle.name}.", dir=bundle.parent) as scratch:
        files = [*_image_files(chosen, Path(scratch), progress), *_extra_files(install)]
        there = {name for _, name, _ in files}
        files += [(path, name, None) for path in wheels if (name := f"wheels/{path.name}") not in there]
        if not files:
            raise UsageError("there is nothing to export: prepare an image first")
        members = tuple(_member(path, name, entry, install, progress) for path, name, entry in files)
        lock = read_lock(install).images
        keys = {member.key for member in members if member.key}
        manifest = Manifest(members=members, locked={key: lock[key] for key in sorted(keys) if key in lock})
        fresh = Path(scratch) / "bundle"
        with tarfile.open(fresh, "w") as archive:
            _add_bytes(archive, MANIFEST, msgspec.json.encode(manifest))
            for (path, _, _), member in zip(files, members, strict=True):
                progress(f"{bundle.name}: adding {member.path} ({size(member.size)})")
                archive.add(path, member.path)
        fresh.replace(bundle)
    return manifest


def take(bundle: Path, install: Path, accept: bool, progress: Progress) -> Manifest:
    """Bring everything of a bundle into the install. Raises `InfraError` for a byte that is not as it must be."""
    try:
        with disk_errors(str(install)), tarfile.open(bundle, "r:") as archive:
            manifest = _read_manifest(archive, bundle)
            require_room(install, sum(member.size for member in manifest.members), f"bundle {bundle.name}")
            for key, entry in manifest.locked.items():
                check_locked(install, key, "digest", entry.digest, accept)
            for member in manifest.members:
                content = _content(archive, member, bundle)
                if not _belongs(PurePosixPath(member.path)):
                    progress(f"{bundle.name}: leaving out {member.path}: of the hub's folder only hub/ is taken")
                    continue
                progress(f"{bundle.name}: taking {member.path} ({size(member.size)})")
                _place(content, member, install, bundle)
    except (tarfile.TarError, EOFError) as error:
        raise InfraError(f"{bundle} cannot be read to its end as a bundle: {error}") from None
    for key, entry in manifest.locked.items():
        remember(install, key, entry.digest, entry.files)
    return manifest


def _image_files(
    chosen: Sequence[Entry], scratch: Path, progress: Progress
) -> Iterator[tuple[Path, str, Entry | None]]:
    for entry in chosen:
        if not entry.good:
            raise InfraError(f"image {entry.name} cannot be exported: {entry.state}")
        if entry.path is None:
            from ..runtimes.docker_store import save

            name = f"{STORED}/{hashlib.sha256(entry.name.encode()).hexdigest()[:12]}.tar"
            archive = scratch / PurePosixPath(name).name
            progress(f"saving {entry.reference} from Docker")
            save(entry.reference or "", archive)
            yield archive, name, entry
        elif entry.kind != "tar":
            yield Path(entry.path), f"images/{entry.name}", entry


def _extra_files(install: Path) -> Iterator[tuple[Path, str, None]]:
    for path in sorted((install / WHEELS).rglob("*")):
        if path.is_file() and path.name.endswith(PACKAGES):
            yield path.resolve(), str(path.relative_to(install)), None
    cache = (install / TOKENIZERS).resolve()
    for path in sorted((install / TOKENIZERS).rglob("*")):
        # Its snapshots are links into itself; one that leads out of it may lead to a token.
        if path.is_file() and path.resolve().is_relative_to(cache):
            yield path.resolve(), str(path.relative_to(install)), None


def _belongs(path: PurePosixPath) -> bool:
    """Whether an import takes it: bundles of earlier versions hold all that lay in the hub's folder, tokens too."""
    return path.parts[0] != ".cache" or path.is_relative_to(TOKENIZERS)


def _member(path: Path, name: str, entry: Entry | None, install: Path, progress: Progress) -> Member:
    stamp = read_stamp(entry.path, install) if entry and entry.path else None
    sha256 = sha256_file(path, progress)
    if stamp and stamp.sha256 and stamp.sha256 != sha256:
        raise InfraError(f"image {path.name} cannot be exported: it was {stamp.sha256}, it is {sha256}")
    key = entry.reference if entry else None
    return Member(path=name, sha256=sha256, size=path.stat().st_size, stamp=stamp, key=key)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    import io

    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def _read_manifest(archive: tarfile.TarFile, bundle: Path) -> Manifest:
    first = archive.next()
    content = archive.extractfile(first) if first and first.name == MANIFEST else None
    try:
        manifest = decode(content.read() if content else b"", Manifest)
    except NOT_JSON:
        raise UsageError(f"{bundle} is no bundle of `llmbx image export`") from None
    for member in manifest.members:
        path = PurePosixPath(member.path)
        if path.is_absolute() or ".." in path.parts or path.parts[:1] not in PLACES:
            raise UsageError(f"{bundle} holds {member.path}, which is no place in an install")
    return manifest


def _content(archive: tarfile.TarFile, member: Member, bundle: Path) -> IO[bytes]:
    found = archive.next()
    content = archive.extractfile(found) if found and found.name == member.path and found.isreg() else None
    if content is None:
        raise InfraError(f"{bundle} is not whole: {member.path} is missing")
    return content


def _place(content: IO[bytes], member: Member, install: Path, bundle: Path) -> None:
    """Write one file under another name, compare it, and give it its name (or hand it to the daemon)."""
    target = install / member.path
    target.parent.mkdir(parents=True, exist_ok=True)
    hashed = hashlib.sha256()
    with tempfile.TemporaryDirectory(prefix=f".{target.name[:40]}.partial-", dir=target.parent) as scratch:
        fresh = Path(scratch) / f"image{target.suffix}"
        with fresh.open("wb") as file:
            while chunk := content.read(_CHUNK):
                hashed.update(chunk)
                file.write(chunk)
        found = f"sha256:{hashed.hexdigest()}"
        if found != member.sha256:
            raise InfraError(f"{bundle} is damaged: {member.path} must be {member.sha256}, it is {found}")
        if member.path.startswith(f"{STORED}/"):
            _hand_over(fresh)
            return
        if member.stamp is not None:
            write_stamp(with_identity(member.stamp.replace(path=str(target)), fresh), install)
        fresh.replace(target)


def _hand_over(archive: Path) -> None:
    from ..runtimes.docker_store import load

    load(archive)
