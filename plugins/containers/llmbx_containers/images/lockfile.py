"""`images.lock`: the digest under which each image was first seen here, so that a tag that was re-pushed is noticed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from llmbx.codec import decode
from llmbx.errors import InfraError, UsageError
from llmbx.files import write_atomic
from llmbx.model import Value
from llmbx.runtimes.locks import held
from llmbx.toml_file import NOT_JSON

NAME = "images.lock"

STORE = "docker"
"""Among an entry's files: the image in the Docker daemon's store, by its id. An image that came there from an archive
has no registry's digest, but the same id as one that was pulled."""


class Locked(Value, frozen=True):
    """One reference: the registry's digest, the sha256 of each file made from it (by file name), and since when."""

    digest: str | None = None
    files: dict[str, str] = {}
    first_seen: str = ""


class Lock(Value, frozen=True):
    """The whole lock, by reference in Docker's spelling (or by path, for a file that the user named)."""

    images: dict[str, Locked] = {}
    schema_version: int = 1


def lock_path(install: Path) -> Path:
    """Where the lock lies."""
    return install / "images" / NAME


def read_lock(install: Path) -> Lock:
    """The lock; empty where there is none yet. Raises `UsageError` for one that cannot be read."""
    path = lock_path(install)
    try:
        return decode(path.read_bytes(), Lock)
    except FileNotFoundError:
        return Lock()
    except (OSError, *NOT_JSON) as error:
        raise UsageError(f"{path} cannot be read: {error}; repair it, or move it away to lock anew") from None


def check_locked(install: Path, reference: str, kind: str, found: str | None, accept: bool, key: str = "") -> None:
    """Compare `found` with what the lock has; with nothing to compare it passes.

    `kind` is "digest" (the registry's) or "file" (then `key` is the file's name). Raises `InfraError` with both unless
    the change is accepted.
    """
    entry = read_lock(install).images.get(reference)
    known = None if entry is None else entry.digest if kind == "digest" else entry.files.get(key)
    if known is None or found is None or known == found or accept:
        return
    what = f"the file {key} of {reference}" if kind == "file" else reference
    said = "it is now" if kind == "file" else "the tag is now"
    keep = "" if kind == "file" else f", or keep the old one with --image {reference.rpartition(':')[0]}@{known}"
    since = f" on {entry.first_seen}" if entry and entry.first_seen else ""
    raise InfraError(
        f"image {what} changed: first seen{since} as {known}, {said} {found}; use the new one with "
        f"--accept-image-change{keep}"
    )


def remember(install: Path, reference: str, digest: str | None, files: dict[str, str]) -> None:
    """Lock what is used now. In an install that may only be read nothing is locked."""
    path = lock_path(install)
    old = read_lock(install).images.get(reference)
    if old and _merged(old, digest, files) == old:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        return
    with held(path.with_name(f".{NAME}.lease"), f"it writes {NAME}", lambda line: None):
        lock = read_lock(install)
        entry = _merged(lock.images.get(reference), digest, files)
        content = lock.replace(images=dict(sorted({**lock.images, reference: entry}.items())))
        write_atomic(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def _merged(old: Locked | None, digest: str | None, files: dict[str, str]) -> Locked:
    """The entry with what is used now; another digest, or another file of no known digest, begins it anew."""
    replaced = any((old.files if old else {}).get(name, sha256) != sha256 for name, sha256 in files.items())
    another = old is not None and (
        bool(old.digest and digest not in (None, old.digest)) or (digest is None and replaced)
    )
    if old is None or another:
        return Locked(digest=digest, files=files, first_seen=time.strftime("%Y-%m-%d"))
    merged: Locked = old.replace(digest=digest or old.digest, files={**old.files, **files})
    return merged
