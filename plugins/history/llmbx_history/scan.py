"""Update the index from the run folders, including those written by other machines.

The change time (ctime) of a folder is updated when something is created, renamed or removed in it.
Checking each experiment's folder therefore finds new and deleted runs; unfinished runs are checked
every time. Changes to a finished run (its tags, a saved window) also update the experiment's time
(`Run.announce_change`). As the clock of a file system can be coarse, a change time younger than
`GRACE_S` is not reliable: such folders are read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, NamedTuple

from llmbx.api.verbs import Install

from .columns import COLUMNS, quoted
from .entry import document
from .read import OPEN, RECORD, Unreadable, read_values
from .values import Values

if TYPE_CHECKING:
    import sqlite3

GRACE_S = 2.0
"""Minimum age in seconds of a change time for an unchanged time to imply unchanged content."""

TOO_RECENT = -1
"""Stands for a change time that is not reliable yet."""

MOST_FOLDERS = 100
"""Number of folders beside each other that are looked at for a run; there is one."""

BATCH = 500
"""Number of runs written per transaction, so that other processes can write in between."""

OPEN_RUNS = f"status IN ({', '.join(repr(status) for status in OPEN)})"
"""SQL condition for unfinished runs."""

_NAMES = (*COLUMNS, "path", "folder", "stamp")
_MARKS = ", ".join("?" * len(_NAMES))
_INSERT = f"INSERT INTO runs ({', '.join(map(quoted, _NAMES))}) VALUES ({_MARKS})"

Progress = Callable[[int, int], None]
"""Called with the number of experiments read and their total number."""


class ScannedRun(NamedTuple):
    """One run folder: its path (relative to the install if inside it) and its columns.

    `path` is its experiment, `stamp` its change time, `why` the reason if it cannot be read.
    """

    folder: str
    path: str
    stamp: int
    values: Values | None
    why: str = ""


def update(db: sqlite3.Connection, install: Install, progress: Progress | None = None) -> None:
    """Update the index from the folders."""
    indexed = dict(db.execute("SELECT path, stamp FROM experiments"))
    stamps = dict(experiments(install))
    stale = [
        path for path, stamp in stamps.items() if stamp == TOO_RECENT or indexed.get(path) != stamp
    ]
    _drop(db, [path for path in indexed if path not in stamps])
    batch: list[ScannedRun] = []
    done: list[str] = []
    for number, path in enumerate(stale, 1):
        batch += _changed(db, install, path)
        done.append(path)
        if len(batch) >= BATCH:
            write(db, install, batch, {path: stamps[path] for path in done})
            batch, done = [], []
            if progress:
                progress(number, len(stale))
    if stale:
        write(db, install, batch, {path: stamps[path] for path in done})
    update_open(db, install, set(stale))


def update_open(db: sqlite3.Connection, install: Install, seen: Iterable[str] = ()) -> None:
    """Read unfinished runs again, except those of the experiments that were just read (`seen`)."""
    rows = db.execute(f"SELECT folder, path, stamp FROM runs WHERE {OPEN_RUNS}").fetchall()
    skip, changed = set(seen), []
    for folder, path, stamp in rows:
        if path in skip:
            continue
        now = _stamp(install.path / folder)
        if now is not None and (now == TOO_RECENT or now != stamp):
            changed.append(read(install, path, folder, now))
    if changed:
        write(db, install, changed, {})


def experiments(install: Install) -> Iterator[tuple[str, int]]:
    """Every experiment's folder (relative to the install if inside it) with its change time."""
    for base in install.all_experiments():
        prefix, folder = relative(install, base), str(base)
        for name in _names(base):  # thousands of names: plain strings are faster than `Path`
            stamp = _stamp(f"{folder}/{name}")
            if stamp is not None:
                yield f"{prefix}/{name}", stamp


def _changed(db: sqlite3.Connection, install: Install, path: str) -> list[ScannedRun]:
    """The runs of one experiment that are new or changed; deleted ones leave the index."""
    stamps = dict(db.execute("SELECT folder, stamp FROM runs WHERE path = ?", (path,)))
    changed = []
    for folder in _run_folders(install, path, set(stamps)):
        stamp = _stamp(folder if folder.startswith("/") else f"{install.root}/{folder}")
        if stamp is None:
            continue
        before = stamps.pop(folder, None)
        if stamp == TOO_RECENT or stamp != before:
            changed.append(read(install, path, folder, stamp))
    _forget(db, [*stamps, *(item.folder for item in changed if item.values is None)])
    return changed


def _run_folders(install: Install, path: str, known: Collection[str]) -> Iterator[str]:
    """Folders with a record: usually EXPERIMENT/RUN/EXPERIMENT, but the last name may differ."""
    experiment = install.path / path
    usual = experiment.name
    for run in _names(experiment):
        folder = f"{path}/{run}/{usual}"
        # what is there is not opened yet: `read` says what is wrong with a link or a pipe
        if folder in known or os.path.lexists(f"{experiment}/{run}/{usual}/{RECORD}"):
            yield folder
            continue
        for name in _names(experiment / run, most=MOST_FOLDERS):
            if os.path.lexists(f"{experiment}/{run}/{name}/{RECORD}"):
                yield f"{path}/{run}/{name}"


def read_now(install: Install, path: str, folder: str) -> ScannedRun:
    """Read the run with the folder's current change time."""
    stamp = _stamp(install.path / folder)
    return read(install, path, folder, TOO_RECENT if stamp is None else stamp)


def read(install: Install, path: str, folder: str, stamp: int) -> ScannedRun:
    """Read the run; `stamp` is the folder's change time, taken before."""
    try:
        return ScannedRun(folder, path, stamp, read_values(install.path / folder))
    except Unreadable as error:
        return ScannedRun(folder, path, stamp, None, str(error))


def write(
    db: sqlite3.Connection, install: Install, runs: list[ScannedRun], stamps: dict[str, int]
) -> None:
    """Write these runs to the index, with the change times of the experiments that are complete."""
    root = Path(os.path.realpath(install.root))
    db.execute("BEGIN IMMEDIATE")
    _remove(db, [run.folder for run in runs if run.values is not None])
    for run in runs:
        if run.values is not None:
            row = [*map(run.values.get, COLUMNS), run.path, run.folder, run.stamp]
            number = db.execute(_INSERT, row).lastrowid
            text = document(run.values, str(root / run.folder))
            db.execute("INSERT INTO documents VALUES (?, ?)", (number, text))
    for path in stamps:
        db.execute("DELETE FROM damaged WHERE path = ?", (path,))
    damaged = [(run.folder, run.path, run.why) for run in runs if run.values is None]
    db.executemany("INSERT OR REPLACE INTO damaged VALUES (?, ?, ?)", damaged)
    db.executemany("INSERT OR REPLACE INTO experiments VALUES (?, ?)", stamps.items())
    db.execute("COMMIT")


def _drop(db: sqlite3.Connection, paths: list[str]) -> None:
    """Remove whole experiments."""
    if not paths:
        return
    db.execute("BEGIN IMMEDIATE")
    for path in paths:
        rows = db.execute("SELECT folder FROM runs WHERE path = ?", (path,)).fetchall()
        _remove(db, [folder for (folder,) in rows])
        db.execute("DELETE FROM damaged WHERE path = ?", (path,))
        db.execute("DELETE FROM experiments WHERE path = ?", (path,))
    db.execute("COMMIT")


def _forget(db: sqlite3.Connection, folders: list[str]) -> None:
    if folders:
        db.execute("BEGIN IMMEDIATE")
        _remove(db, folders)
        db.execute("COMMIT")


def _remove(db: sqlite3.Connection, folders: list[str]) -> None:
    rows = [(folder,) for folder in folders]
    number = "SELECT number FROM runs WHERE folder = ?"
    db.executemany(f"DELETE FROM documents WHERE number = ({number})", rows)
    db.executemany("DELETE FROM runs WHERE folder = ?", rows)


def _names(folder: Path, most: int | None = None) -> list[str]:
    """Names in a folder, at most so many, without those that are not text: llmbx writes none."""
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in islice(entries, most))
            return sorted(name for name in names if name.isascii() or _is_text(name))
    except OSError:
        return []


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _stamp(folder: Path | str) -> int | None:
    """Change time of the folder in ns, `TOO_RECENT` if it is too young; None without a folder."""
    try:
        status = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    if not S_ISDIR(status.st_mode):
        return None
    return TOO_RECENT if time.time() - status.st_ctime < GRACE_S else status.st_ctime_ns


def relative(install: Install, folder: Path) -> str:
    """The folder, relative to the install if it is inside it."""
    inside = folder.is_relative_to(install.path)
    return str(folder.relative_to(install.path)) if inside else str(folder)
