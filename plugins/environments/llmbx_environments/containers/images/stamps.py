"""Stamps: cached verification results of image files, valid while size, modification time and inode are unchanged.

Hashing a GPU image takes a minute, reading its stamp less than a millisecond. A stamp does not protect against
deliberate manipulation; `llmbx image verify` hashes the file again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from llmbx.api import NOT_JSON, InfraError, Value, decode, write_atomic

FOLDER = ".stamps"


class Stamp(Value, frozen=True):
    """One verified image: its path, the identity of its file, its digests, its versions and its origin.

    `digest` is that of the registry (None for a file that llmbx did not import), `config` the digest of its
    configuration, `sha256` that of the file. `size` is in bytes. A Docker image has no file: its `path` is
    `docker/` and the image id.
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


def read_stamp(path: str, install: Path) -> Stamp | None:
    """The stamp of `path`, even if the file has changed since; None if there is none."""
    try:
        return decode(_stamp_file(path, install).read_bytes(), Stamp)
    except (OSError, *NOT_JSON):
        return None


def current_stamp(path: Path, install: Path) -> Stamp | None:
    """The stamp of the file `path` if the file is unchanged, else None."""
    try:
        found = path.stat()
    except OSError:
        return None
    stamp = read_stamp(str(path), install)
    updated = stamp and (stamp.size, stamp.mtime_ns, stamp.inode) == (
        found.st_size,
        found.st_mtime_ns,
        found.st_ino,
    )
    return stamp if updated else None


def with_identity(stamp: Stamp, file: Path) -> Stamp:
    """`stamp` with the size, modification time and inode of `file`; a rename preserves all three."""
    found = file.stat()
    updated: Stamp = stamp.replace(
        size=found.st_size, mtime_ns=found.st_mtime_ns, inode=found.st_ino
    )
    return updated


def write_stamp(stamp: Stamp, install: Path) -> None:
    """Write `stamp`. In a read-only install nothing is written, and the next run hashes the file again."""
    with suppress(InfraError):
        content = msgspec.json.format(msgspec.json.encode(stamp), indent=2)
        write_atomic(_stamp_file(stamp.path, install), content + b"\n")


def delete_stamp(path: str, install: Path) -> None:
    """Delete the stamp of `path`."""
    with suppress(OSError):
        _stamp_file(path, install).unlink()


def all_stamps(install: Path) -> Iterator[Stamp]:
    """Every stamp of the install, sorted by file name."""
    for place in sorted((install / "images" / FOLDER).glob("*.json")):
        with suppress(OSError, *NOT_JSON):
            yield decode(place.read_bytes(), Stamp)


def _stamp_file(path: str, install: Path) -> Path:
    """The stamp file of `path`. For images in the install it depends only on the name, so an install can be moved."""
    images = install / "images"
    name = Path(path).name
    if str(Path(path).parent) != str(images):
        name += "." + hashlib.sha256(path.encode()).hexdigest()[:12]
    return images / FOLDER / f"{name.replace(':', '_')}.json"
