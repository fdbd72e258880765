"""Index of an install's runs: one SQLite file in the user's cache folder.

What the run folders say counts. The file is in the cache folder because SQLite is unreliable on
shared file systems, and uses the default journal mode, which needs no shared memory. If the file is
damaged, deleted or of another schema version, it is rebuilt from the folders; if the cache cannot
be written, the index is built in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from llmbx.api.verbs import Install

from .columns import COLUMNS, quoted
from .timespec import add_times

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
Say = Callable[[str], None]

LAYOUT = 7
"""Version of the tables without the columns of runs."""


def schema(columns: Iterable[str]) -> int:
    """The version of the tables with these columns of runs, which a file states."""
    return zlib.crc32(f"{LAYOUT} {' '.join(columns)}".encode()) & 0x7FFFFFFF


SCHEMA = schema(COLUMNS)
"""A file of another version is rebuilt."""

LISTED_COLUMNS = (
    "status",
    "workload.name",
    "workload.plugin",
    "workload.size",
    "workload.dtype",
    "workload.gpu_type",
    "workload.gpus",
    "tags",
    "data_valid",
    "step_time_s.mean",
    "step_time_s.std",
    "tflops_per_gpu.mean",
    "tokens_per_s",
    "mfu.value",
    "user",
)
"""Columns of the most common queries.

An SQL index of them avoids reading whole rows, which are ten times larger.
"""

PRIVATE = 0o600
"""Permissions of the file."""

LOCK_TIMEOUT_S = 20.0
"""Seconds that a process waits for another one to finish writing."""


def index_path(install: Install, environ: Mapping[str, str]) -> Path:
    """Path of the index file: one file per install, named after the install's resolved path."""
    cache = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    root = os.path.realpath(install.root)
    roots = f"{root}\0{os.path.realpath(install.workload_root or root)}"
    key = hashlib.sha256(roots.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]+", "-", Path(root).name)[:40] or "root"
    return cache / "llmbx" / "history" / f"{name}-{key}.sqlite"


def use_index(install: Install, work: Callable[[sqlite3.Connection], T], say: Say) -> T:
    """Return what `work` returns for the index.

    `work` may be called again, on a new index, if the first one is damaged.
    """
    import sqlite3

    path = index_path(install, os.environ)
    for _ in range(2):
        try:
            with open_index(path) as db:
                return work(db)
        except sqlite3.DatabaseError as error:
            reason = str(error)
            if not _damaged(error):
                break
            discard(path)
        except OSError as error:
            reason = error.strerror or str(error)
            break
    say(f"cannot use the history index {path} ({reason}): reading the run folders instead")
    with contextlib.closing(_connect(":memory:")) as db:
        _make(db)
        return work(db)


@contextlib.contextmanager
def open_index(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the index in this file, made if necessary. Raises `sqlite3.Error` and `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _keep_private(path)
    with contextlib.closing(_connect(str(path))) as db:
        if _version(db) != SCHEMA:
            _make(db)
        yield db


def _keep_private(path: Path) -> None:
    """Make the file, created if necessary, readable by its owner only.

    SQLite gives its journal the same permissions. The index repeats what is in the folders of runs,
    which other users may not be able to read.
    """
    with contextlib.suppress(OSError):  # another user's, or read-only: SQLite says so
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE))
        if stat.S_IMODE(path.stat().st_mode) != PRIVATE:
            path.chmod(PRIVATE)


def discard(path: Path) -> None:
    """Remove a damaged index. Processes that have it open continue with the removed file."""
    for name in (f"{path}-journal", str(path)):
        Path(name).unlink(missing_ok=True)


def clear(db: sqlite3.Connection) -> None:
    """Remove all entries, so that all folders are read again."""
    db.execute("BEGIN IMMEDIATE")
    for table in ("experiments", "documents", "runs", "damaged"):
        db.execute(f"DELETE FROM {table}")
    db.execute("COMMIT")


def _connect(path: str) -> sqlite3.Connection:
    import sqlite3

    db = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, isolation_level=None)
    add_times(db)
    return db


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def _make(db: sqlite3.Connection) -> None:
    """Create empty tables of this schema, after dropping all existing ones."""
    db.execute("BEGIN IMMEDIATE")
    if _version(db) == SCHEMA:  # another process has created them in the meantime
        db.execute("COMMIT")
        return
    query = "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    for kind, name in db.execute(query).fetchall():
        if kind in ("table", "view"):
            db.execute(f'DROP {kind} IF EXISTS "{name}"')
    columns = ", ".join(quoted(name) for name in COLUMNS)
    db.execute("CREATE TABLE experiments (path TEXT PRIMARY KEY, stamp INTEGER)")
    place = "path TEXT, folder TEXT UNIQUE, stamp INTEGER"
    db.execute(f"CREATE TABLE runs (number INTEGER PRIMARY KEY, {columns}, {place})")
    db.execute("CREATE TABLE documents (number INTEGER PRIMARY KEY, text TEXT)")
    db.execute("CREATE TABLE damaged (folder TEXT PRIMARY KEY, path TEXT, why TEXT)")
    listing = ", ".join(['"created" DESC', '"run_id" DESC', *map(quoted, LISTED_COLUMNS)])
    db.execute(f"CREATE INDEX listing ON runs ({listing})")
    db.execute("CREATE INDEX by_status ON runs (status)")
    db.execute("CREATE INDEX by_experiment ON runs (path)")
    db.execute(f"PRAGMA user_version = {SCHEMA}")
    db.execute("COMMIT")


def _damaged(error: sqlite3.DatabaseError) -> bool:
    """Whether a new file would help.

    Not if the file is locked, the disk full or not writable, or the query wrong.
    """
    import sqlite3

    faults = ("no such ", "UNIQUE constraint ")
    return type(error) is sqlite3.DatabaseError or str(error).startswith(faults)
