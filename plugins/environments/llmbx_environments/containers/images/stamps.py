"""Stamps: cached verification results of image files.

A stamp is valid while size, modification time and inode of its file are unchanged. Hashing a GPU
image takes a minute, reading its stamp less than a millisecond. It does not protect against
deliberate manipulation; `llmbx image verify` hashes the file again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from llmbx.api import InfraError, Value

from ...records import read_record, write_record

FOLDER = ".stamps"


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


def read_stamp(path: str, install: Path) -> Stamp | None:
    """The stamp of `path`, even if the file has changed since; None if there is none."""
    return read_record(_stamp_file(path, install), Stamp)


def current_stamp(path: Path, install: Path) -> Stamp | None:
    """The stamp of the file `path` if the file is unchanged, else None."""
    stamp = read_stamp(str(path), install)
    with suppress(OSError):
        return stamp if stamp and stamp == stamp.of(path) else None
    return None


def write_stamp(stamp: Stamp, install: Path) -> None:
    """Write `stamp`. In a read-only install, the next run hashes the file again."""
    with suppress(InfraError):
        write_record(_stamp_file(stamp.path, install), stamp)


def delete_stamp(path: str, install: Path) -> None:
    """Delete the stamp of `path`."""
    with suppress(OSError):
        _stamp_file(path, install).unlink()


def all_stamps(install: Path) -> Iterator[Stamp]:
    """Every stamp of the install, sorted by file name."""
    for path in sorted((install / "images" / FOLDER).glob("*.json")):
        if stamp := read_record(path, Stamp):
            yield stamp


def _stamp_file(path: str, install: Path) -> Path:
    """The stamp's file. In the install it has the image's name, so that an install can be moved."""
    images = install / "images"
    name = Path(path).name
    if str(Path(path).parent) != str(images):
        name += "." + hashlib.sha256(path.encode()).hexdigest()[:12]
    return images / FOLDER / f"{name.replace(':', '_')}.json"
