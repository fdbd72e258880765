"""Runs of an install: list and select them through an index, and find one by its tag."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..config.install import RECORD, Install
from ..errors import LlmbxError
from ..model import Scalar, Value
from ..record.folder import Run, read_run
from ..record.history import ALL, Selection
from . import foreign_tags
from .columns import COLUMNS, Entry
from .index import clear, use_index
from .query import check_measures, count, documents, folders, rows
from .refresh import open_runs, refresh_all
from .scan import Progress, read_now, relative, update, write

if TYPE_CHECKING:
    import sqlite3

    from ..plugins.manager import Plugins

__all__ = [
    "COLUMNS",
    "RECORD",
    "Entry",
    "Listing",
    "Selection",
    "all_tags",
    "list_runs",
    "rebuild",
    "reread",
    "select",
    "tagged",
    "with_index",
]

T = TypeVar("T")


class Listing(Value, frozen=True):
    """Result of a query: rows of columns or pieces of JSON, and the number of runs that match without the limit.

    `of_others` is how many more would match if runs of other users were selected too. `runs` is 0 if the install has no
    runs; `damaged` lists the folders whose record cannot be read, with the reason.
    """

    rows: tuple[tuple[Scalar, ...], ...] = ()
    documents: tuple[str, ...] = ()
    fitting: int = 0
    runs: int = 0
    damaged: tuple[tuple[str, str], ...] = ()
    of_others: int = 0


@functools.cache
def say(line: str) -> None:
    """Print a note on stderr, once per command."""
    print(f"llmbx: note: {line}", file=sys.stderr)


def with_index(install: Install, work: Callable[[sqlite3.Connection], T], progress: Progress | None = None) -> T:
    """Return what `work` returns for an up-to-date index; `work` may be called twice."""

    def updated(db: sqlite3.Connection) -> T:
        update(db, install, progress)
        return work(db)

    return use_index(install, updated, say)


def list_runs(
    install: Install,
    plugins: Callable[[], Plugins],
    wanted: Selection,
    columns: Sequence[str] | None,
    progress: Progress | None = None,
) -> Listing:
    """The selected runs with these columns (None: complete, as JSON).

    Runs of this user that have ended since the last query are finalized now; `plugins` is called only if there are
    unfinished runs.
    """

    def work(db: sqlite3.Connection) -> Listing:
        check_measures(db, wanted, columns or ())
        if open_runs(db):
            refresh_all(db, install, plugins())
        pieces = documents(db, wanted) if columns is None else []
        lines = rows(db, wanted, columns) if columns is not None else []
        shown = len(pieces) + len(lines)
        return Listing(
            rows=tuple(lines),
            documents=tuple(pieces),
            fitting=count(db, wanted) if shown == wanted.limit else shown,
            runs=shown or count(db, Selection()),
            of_others=count(db, wanted.replace(user=ALL)) - count(db, wanted) if wanted.user is None else 0,
            damaged=tuple(db.execute("SELECT folder, why FROM damaged ORDER BY folder")),
        )

    return with_index(install, work, progress)


def all_tags(install: Install) -> set[str]:
    """All tags of all runs."""
    return with_index(install, _tags)


def rebuild(install: Install, progress: Progress | None = None) -> int:
    """Rebuild the index from the folders and return its number of runs."""

    def work(db: sqlite3.Connection) -> int:
        clear(db)
        update(db, install, progress)
        return count(db, Selection())

    return use_index(install, work, say)


def reread(install: Install, run: Run) -> None:
    """Read a run again into this user's index, as this user has tagged a run of another user."""

    def work(db: sqlite3.Connection) -> None:
        folder = relative(install, run.path)
        (path,) = db.execute("SELECT path FROM runs WHERE folder = ?", (folder,)).fetchone() or (None,)
        if path is not None:
            write(db, install, [read_now(install, path, folder)], {})

    with_index(install, work)


def select(install: Install, wanted: Selection) -> list[Run]:
    """The selected runs with a readable record, newest first unless sorted otherwise."""
    runs = []
    for folder in with_index(install, lambda db: folders(db, wanted)):
        try:
            runs.append(read_run(install.path / folder))
        except LlmbxError:
            # Written by a newer llmbx: `find_run` reports it, other queries skip it.
            continue
    return runs


def tagged(install: Install, tag: str) -> str | None:
    """The folder of the newest run that this user tagged so, else of the newest with the tag; None without one."""
    folders = with_index(install, lambda db: _tagged(db, install, tag))
    return str(install.path / folders[0]) if folders else None


def _tagged(db: sqlite3.Connection, install: Install, tag: str) -> list[str]:
    """The folder of the newest run that this user tagged, else of the newest with the tag; empty without one."""
    own = folders(db, Selection(tags=(tag,), user=None, limit=1))
    others = [] if own else folders(db, Selection(tags=(tag,)))
    return own or [folder for folder in others if tag in foreign_tags.of(install.path / folder)][:1] or others[:1]


def _tags(db: sqlite3.Connection) -> set[str]:
    return {tag for (tags,) in db.execute("SELECT DISTINCT tags FROM runs") for tag in str(tags or "").split()}
