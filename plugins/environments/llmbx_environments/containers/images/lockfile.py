"""`images.lock`: the digest of each image at its first import, used to detect re-pushed tags and changed files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from llmbx.api import NOT_JSON, InfraError, UsageError, Value, decode, write_atomic

from ...locks import held

NAME = "images.lock"

STORE = "docker"
"""Key in an entry's files for the image id in the Docker daemon. An image that was loaded from an archive has no
registry digest, but the same id as the pulled image."""


class Locked(Value, frozen=True):
    """One reference: its registry digest, the sha256 of each file made from it (by file name), and the date."""

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
    """Read the lock; empty if the file does not exist. Raises `UsageError` if it cannot be read."""
    path = lock_path(install)
    try:
        return decode(path.read_bytes(), Lock)
    except FileNotFoundError:
        return Lock()
    except (OSError, *NOT_JSON) as error:
        raise UsageError(
            f"{path} cannot be read: {error}; repair the file, or move it away to create a new one"
        ) from None


def check_locked(
    install: Path, reference: str, kind: str, found: str | None, accept: bool, key: str = ""
) -> None:
    """Compare `found` with the lock; unknown values pass.

    `kind` is "digest" (of the registry) or "file" (`key` is the file name). Raises `InfraError` with both values if
    they differ, unless `accept` is true.
    """
    entry = read_lock(install).images.get(reference)
    known = None if entry is None else entry.digest if kind == "digest" else entry.files.get(key)
    if known is None or found is None or known == found or accept:
        return
    what = f"the file {key} of {reference}" if kind == "file" else reference
    now = "now" if kind == "file" else "the tag is now"
    keep = (
        ""
        if kind == "file"
        else f"; to keep the old one, pass --image {reference.rpartition(':')[0]}@{known}"
    )
    since = f" on {entry.first_seen}" if entry and entry.first_seen else ""
    raise InfraError(
        f"image {what} changed: first seen{since} as {known}, {now} {found}; to use the new one, pass "
        f"--accept-image-change{keep}"
    )


def remember(install: Path, reference: str, digest: str | None, files: dict[str, str]) -> None:
    """Record the digest and files of `reference` in the lock. Does nothing in a read-only install."""
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
    """Merge digest and files into the entry. A changed digest, or a changed file without a digest, replaces it."""
    replaced = any(
        (old.files if old else {}).get(name, sha256) != sha256 for name, sha256 in files.items()
    )
    another = old is not None and (
        bool(old.digest and digest not in (None, old.digest)) or (digest is None and replaced)
    )
    if old is None or another:
        return Locked(digest=digest, files=files, first_seen=time.strftime("%Y-%m-%d"))
    merged: Locked = old.replace(digest=digest or old.digest, files={**old.files, **files})
    return merged
