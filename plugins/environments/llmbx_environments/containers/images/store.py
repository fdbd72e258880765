"""What an install knows about its images: stamps of verified files, and the lock of digests.

A stamp is valid while size, modification time and inode of its file are unchanged. Hashing a GPU
image takes a minute, reading its stamp less than a millisecond. It does not protect against
deliberate manipulation; `llmbx image verify` hashes the file again.

`images.lock` has the digest of each image at its first import, to detect changed tags and files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from llmbx.api import NOT_JSON, InfraError, UsageError, Value, decode

from ...locks import held
from ...records import read_record, write_record

DOCKER = "docker"
"""Key in a lock entry's files for the image id in the Docker daemon. An image that was loaded from
an archive has no registry digest, but the same id as the pulled image."""


class Stamp(Value, frozen=True):
    """One verified image: its path, the identity of its file, its digests, versions and origin.

    `digest` is that of the registry (None for a file that llmbx did not import), `config` that of
    its configuration, `sha256` that of the file. `size` is in bytes. A Docker image has no file:
    its `path` is `docker/` and the image id.
    """

    path: str
    reference: str
    sha256: str | None = None
    digest: str | None = None
    config: str | None = None
    size: int = 0
    mtime_ns: int = 0
    inode: int = 0
    versions: dict[str, str] = {}
    imported: str = ""
    tool: str = ""

    @property
    def proof(self) -> str | None:
        """The digest for records and results: that of the registry, else that of the file."""
        return self.digest or self.sha256

    def of(self, file: Path) -> Stamp:
        """The stamp with the identity of `file`, which a rename preserves."""
        status = file.stat()
        return self.replace(size=status.st_size, mtime_ns=status.st_mtime_ns, inode=status.st_ino)


class Locked(Value, frozen=True):
    """One reference: its registry digest, and the sha256 of each file made from it, by name."""

    digest: str | None = None
    files: dict[str, str] = {}
    first_seen: str = ""


class Lock(Value, frozen=True):
    """The contents of `images.lock`, by Docker reference (or by path, for a file of the user)."""

    images: dict[str, Locked] = {}
    schema_version: int = 1


@dataclasses.dataclass(frozen=True)
class ImageStore:
    """The images of one install. In a read-only install, nothing is written."""

    install: Path

    @property
    def folder(self) -> Path:
        """The folder of image files."""
        return self.install / "images"

    @property
    def lock_path(self) -> Path:
        """Path of `images.lock`."""
        return self.folder / "images.lock"

    def stamp(self, path: str | Path) -> Stamp | None:
        """The stamp of `path`, even if the file has changed since; None if there is none."""
        return read_record(self._stamp_file(path), Stamp)

    def current_stamp(self, path: Path) -> Stamp | None:
        """The stamp of the file `path` if the file is unchanged, else None."""
        stamp = self.stamp(path)
        with suppress(OSError):
            return stamp if stamp and stamp == stamp.of(path) else None
        return None

    def stamps(self) -> Iterator[Stamp]:
        """Every stamp, sorted by file name."""
        for path in sorted((self.folder / ".stamps").glob("*.json")):
            if stamp := read_record(path, Stamp):
                yield stamp

    def write_stamp(self, stamp: Stamp) -> None:
        """Write `stamp`. If that is impossible, the next run hashes the file again."""
        with suppress(InfraError):
            write_record(self._stamp_file(stamp.path), stamp)

    def delete_stamp(self, path: str | Path) -> None:
        """Delete the stamp of `path`."""
        with suppress(OSError):
            self._stamp_file(path).unlink()

    def _stamp_file(self, path: str | Path) -> Path:
        """The stamp's file, which has the name of an image in the install: it can be moved."""
        name = Path(path).name
        if Path(path).parent != self.folder:
            name += "." + hashlib.sha256(str(path).encode()).hexdigest()[:12]
        return self.folder / ".stamps" / f"{name.replace(':', '_')}.json"

    def lock(self) -> Lock:
        """Read the lock; empty if the file does not exist. Raises `UsageError` if it is damaged."""
        try:
            return decode(self.lock_path.read_bytes(), Lock)
        except FileNotFoundError:
            return Lock()
        except (OSError, *NOT_JSON) as error:
            advice = "repair the file, or move it away to create a new one"
            raise UsageError(f"{self.lock_path} cannot be read: {error}; {advice}") from None

    def locked(self, reference: str) -> Locked:
        """What the lock has of an image; empty if nothing."""
        return self.lock().images.get(reference, Locked())

    def check_digest(self, reference: str, digest: str | None, accept: bool) -> None:
        """Raise `InfraError` if the lock has another registry digest, unless `accept`."""
        entry = self.locked(reference)
        if not accept and _differ(entry.digest, digest):
            name = reference.rpartition(":")[0]
            keep = f"; to keep the old one, pass --image {name}@{entry.digest}"
            raise _changed(reference, entry, f"{entry.digest}, the tag is now {digest}", keep)

    def check_file(self, reference: str, name: str, sha256: str | None, accept: bool) -> None:
        """Raise `InfraError` if the lock has another sha256 of the file `name`, unless `accept`."""
        entry = self.locked(reference)
        old = entry.files.get(name)
        if not accept and _differ(old, sha256):
            raise _changed(f"the file {name} of {reference}", entry, f"{old}, now {sha256}")

    def remember(self, reference: str, digest: str | None, files: dict[str, str]) -> None:
        """Record the digest and files of `reference` in the lock."""
        entry = self.lock().images.get(reference)
        if entry and _merged(entry, digest, files) == entry:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            return
        name = self.lock_path.name
        with held(self.folder / f".{name}.lease", f"it writes {name}", lambda line: None):
            lock = self.lock()
            entry = _merged(lock.images.get(reference), digest, files)
            images = dict(sorted({**lock.images, reference: entry}.items()))
            write_record(self.lock_path, lock.replace(images=images))


def _differ(old: str | None, new: str | None) -> bool:
    return None not in (old, new) and old != new


def _changed(image: str, entry: Locked, digests: str, keep: str = "") -> InfraError:
    since = f" on {entry.first_seen}" if entry.first_seen else ""
    advice = f"to use the new one, pass --accept-image-change{keep}"
    return InfraError(f"image {image} changed: first seen{since} as {digests}; {advice}")


def _merged(entry: Locked | None, digest: str | None, files: dict[str, str]) -> Locked:
    """The entry with `digest` and `files`, or a new one if the image is another."""
    if entry is None or _is_another(entry, digest, files):
        return Locked(digest=digest, files=files, first_seen=time.strftime("%Y-%m-%d"))
    return entry.replace(digest=digest or entry.digest, files={**entry.files, **files})


def _is_another(entry: Locked, digest: str | None, files: dict[str, str]) -> bool:
    """Whether the digest changed or, if it is unknown, a file."""
    if digest is not None:
        return _differ(entry.digest, digest)
    return any(_differ(entry.files.get(name), sha256) for name, sha256 in files.items())
