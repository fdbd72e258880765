"""`images.lock`: the digest of each image at its first import, to detect changed tags and files."""

from __future__ import annotations

import os
import time
from pathlib import Path

from llmbx.api import NOT_JSON, InfraError, UsageError, Value, decode

from ...locks import held
from ...records import write_record

NAME = "images.lock"

STORE = "docker"
"""Key in an entry's files for the image id in the Docker daemon. An image that was loaded from an
archive has no registry digest, but the same id as the pulled image."""


class Locked(Value, frozen=True):
    """One reference: its registry digest, and the sha256 of each file made from it, by name."""

    digest: str | None = None
    files: dict[str, str] = {}
    first_seen: str = ""


class Lock(Value, frozen=True):
    """The contents of `images.lock`, by Docker reference (or by path, for a file of the user)."""

    images: dict[str, Locked] = {}
    schema_version: int = 1


def lock_path(install: Path) -> Path:
    """Path of `images.lock`."""
    return install / "images" / NAME


def read_lock(install: Path) -> Lock:
    """Read the lock; empty if the file does not exist. Raises `UsageError` if it is damaged."""
    path = lock_path(install)
    try:
        return decode(path.read_bytes(), Lock)
    except FileNotFoundError:
        return Lock()
    except (OSError, *NOT_JSON) as error:
        advice = "repair the file, or move it away to create a new one"
        raise UsageError(f"{path} cannot be read: {error}; {advice}") from None


def check_digest(install: Path, reference: str, digest: str | None, accept: bool) -> None:
    """Raise `InfraError` if the lock has another registry digest, unless `accept`."""
    entry = read_lock(install).images.get(reference, Locked())
    if not accept and _differ(entry.digest, digest):
        keep = f"; to keep the old one, pass --image {reference.rpartition(':')[0]}@{entry.digest}"
        raise _changed(reference, entry, f"{entry.digest}, the tag is now {digest}", keep)


def check_file(install: Path, reference: str, name: str, sha256: str | None, accept: bool) -> None:
    """Raise `InfraError` if the lock has another sha256 of the file `name`, unless `accept`."""
    entry = read_lock(install).images.get(reference, Locked())
    locked = entry.files.get(name)
    if not accept and _differ(locked, sha256):
        raise _changed(f"the file {name} of {reference}", entry, f"{locked}, now {sha256}")


def _differ(locked: str | None, current: str | None) -> bool:
    return None not in (locked, current) and locked != current


def _changed(image: str, entry: Locked, digests: str, keep: str = "") -> InfraError:
    since = f" on {entry.first_seen}" if entry.first_seen else ""
    advice = f"to use the new one, pass --accept-image-change{keep}"
    return InfraError(f"image {image} changed: first seen{since} as {digests}; {advice}")


def remember(install: Path, reference: str, digest: str | None, files: dict[str, str]) -> None:
    """Record the digest and files of `reference`. Does nothing in a read-only install."""
    path = lock_path(install)
    entry = read_lock(install).images.get(reference)
    if entry and _merged(entry, digest, files) == entry:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        return
    with held(path.with_name(f".{NAME}.lease"), f"it writes {NAME}", lambda line: None):
        lock = read_lock(install)
        entry = _merged(lock.images.get(reference), digest, files)
        images = dict(sorted({**lock.images, reference: entry}.items()))
        write_record(path, lock.replace(images=images))


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
