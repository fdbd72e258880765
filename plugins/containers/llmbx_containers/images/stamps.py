"""What was once found out about an image file, valid as long as its size, modification time and inode are the same.

Hashing a GPU image takes a minute, reading its stamp less than a millisecond. A stamp proves nothing against somebody
who wants to deceive; `llmbx image verify` hashes again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from llmbx.codec import decode
from llmbx.errors import InfraError
from llmbx.files import write_atomic
from llmbx.model import Value
from llmbx.toml_file import NOT_JSON

FOLDER = ".stamps"


class Stamp(Value, frozen=True):
    """One image, seen whole: where it lies, its file's identity, what it holds and where it came from.

    `digest` is the registry's (None for a file that llmbx did not import), `config` the digest of its configuration,
    `sha256` the file's own. An image in a
    daemon's store has no file: its `path` is the daemon's id for it.
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
        """The digest that a record shows: the registry's, else the file's."""
        return self.digest or self.sha256


def read_stamp(path: str, install: Path) -> Stamp | None:
    """The stamp of `path`, whether or not it still fits; None when there is none."""
    try:
        return decode(_place(path, install).read_bytes(), Stamp)
    except (OSError, *NOT_JSON):
        return None


def current_stamp(path: Path, install: Path) -> Stamp | None:
    """The stamp of the file `path` if it is still the file that was stamped."""
    try:
        found = path.stat()
    except OSError:
        return None
    stamp = read_stamp(str(path), install)
    same = stamp and (stamp.size, stamp.mtime_ns, stamp.inode) == (found.st_size, found.st_mtime_ns, found.st_ino)
    return stamp if same else None


def with_identity(stamp: Stamp, file: Path) -> Stamp:
    """`stamp` with the size, modification time and inode of `file`; a rename keeps all three."""
    found = file.stat()
    same: Stamp = stamp.replace(size=found.st_size, mtime_ns=found.st_mtime_ns, inode=found.st_ino)
    return same


def write_stamp(stamp: Stamp, install: Path) -> None:
    """Keep `stamp`. In an install that may only be read nothing is kept, and the next run hashes again."""
    with suppress(InfraError):
        content = msgspec.json.format(msgspec.json.encode(stamp), indent=2)
        write_atomic(_place(stamp.path, install), content + b"\n")


def drop_stamp(path: str, install: Path) -> None:
    """Forget `path`."""
    with suppress(OSError):
        _place(path, install).unlink()


def all_stamps(install: Path) -> Iterator[Stamp]:
    """Every stamp of the install, by name."""
    for place in sorted((install / "images" / FOLDER).glob("*.json")):
        with suppress(OSError, *NOT_JSON):
            yield decode(place.read_bytes(), Stamp)


def _place(path: str, install: Path) -> Path:
    """The stamp's own file: an image of the install keeps its name, so that a moved install keeps its stamps."""
    images = install / "images"
    name = Path(path).name
    if str(Path(path).parent) != str(images):
        name += "." + hashlib.sha256(path.encode()).hexdigest()[:12]
    return images / FOLDER / f"{name.replace(':', '_')}.json"
