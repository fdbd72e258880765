"""The index of an install's runs: one SQLite file in the user's cache folder. The run folders are the truth.

It lies there because file systems that machines share break SQLite, and in the plain journal mode, which needs no
memory that processes share. Whatever is wrong with it (damaged, of another schema, deleted), it is made anew from the
folders; where no cache can be written, the same index is made in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..config.install import Install
from .columns import COLUMNS

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
Say = Callable[[str], None]

SCHEMA = 1
"""Raised with every change of the tables; a file of another number is made anew."""

USUAL = (
    "status", "workload.name", "workload.plugin", "workload.size", "workload.dtype", "workload.gpu_type",
    "workload.gpus", "tags", "data_valid", "step_time_s.mean", "step_time_s.std", "tflops_per_gpu.mean", "tokens_per_s",
    "mfu.value",
)  # fmt: skip
"""What most questions are about: an index of these columns answers them without the tenfold of the whole rows."""

PATIENCE_S = 20.0
"""How long a process waits for another one to finish writing."""


def place(install: Install, environ: Mapping[str, str]) -> Path:
    """The index's file: one for each install, named after its resolved path."""
    cache = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    root = os.path.realpath(install.root)
    key = hashlib.sha256(f"{root}\0{os.path.realpath(install.workload_root or root)}".encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]+", "-", Path(root).name)[:40] or "root"
    return cache / "llmbx" / "history" / f"{name}-{key}.sqlite"


def using(install: Install, work: Callable[[sqlite3.Connection], T], say: Say) -> T:
    """What `work` makes of the index. It may be called again, on a new index, when the first one is damaged."""
    import sqlite3

    path = place(install, os.environ)
    for _ in range(2):
        try:
            with opened(path) as db:
                return work(db)
        except sqlite3.DatabaseError as error:
            reason = str(error)
            if not _damaged(error):
                break
            discard(path)
        except OSError as error:
            reason = error.strerror or str(error)
            break
    say(f"the history's index {path} cannot be used ({reason}): reading the run folders instead")
    with contextlib.closing(_connect(":memory:")) as db:
        _make(db)
        return work(db)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The index in this file, made where there is none of this schema. Raises `sqlite3.Error` and `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(_connect(str(path))) as db:
        if _version(db) != SCHEMA:
            _make(db)
        yield db


def discard(path: Path) -> None:
    """Remove a damaged index. Who has it open goes on with what is no longer anybody else's."""
    for name in (f"{path}-journal", str(path)):
        Path(name).unlink(missing_ok=True)


def clear(db: sqlite3.Connection) -> None:
    """Forget everything, so that all folders are read again."""
    db.execute("BEGIN IMMEDIATE")
    for table in ("experiments", "documents", "runs", "damaged"):
        db.execute(f"DELETE FROM {table}")
    db.execute("COMMIT")


def quoted(column: str) -> str:
    """A column's name as SQL spells it."""
    return f'"{column}"'


def _connect(path: str) -> sqlite3.Connection:
    import sqlite3

    return sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return version


def _make(db: sqlite3.Connection) -> None:
    """Empty tables of this schema in place of whatever there is."""
    db.execute("BEGIN IMMEDIATE")
    if _version(db) == SCHEMA:  # another process was faster
        db.execute("COMMIT")
        return
    known = db.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    for kind, name in known:
        if kind in ("table", "view"):
            db.execute(f'DROP {kind} IF EXISTS "{name}"')
    columns = ", ".join(quoted(name) for name in COLUMNS)
    db.execute("CREATE TABLE experiments (path TEXT PRIMARY KEY, stamp INTEGER)")
    db.execute(f"CREATE TABLE runs (id INTEGER PRIMARY KEY, {columns}, path TEXT, folder TEXT UNIQUE, stamp INTEGER)")
    db.execute("CREATE TABLE documents (id INTEGER PRIMARY KEY, text TEXT)")
    db.execute("CREATE TABLE damaged (folder TEXT PRIMARY KEY, path TEXT, why TEXT)")
    listing = ", ".join(['"created" DESC', '"run_id" DESC', *map(quoted, USUAL)])
    for name, on in (("listing", listing), ("by_status", '"status"'), ("by_experiment", "path"), ("by_id", '"run_id"'),
                     ("by_job", '"job_id"')):  # fmt: skip
        db.execute(f"CREATE INDEX {name} ON runs ({on})")
    db.execute(f"PRAGMA user_version = {SCHEMA}")
    db.execute("COMMIT")


def _damaged(error: sqlite3.DatabaseError) -> bool:
    """Whether a new file would help: not where it is locked, its folder full or not ours, or the question at fault."""
    import sqlite3

    return type(error) is sqlite3.DatabaseError or str(error).startswith(("no such ", "UNIQUE constraint "))
