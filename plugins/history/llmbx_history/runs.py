"""Select the runs of an install through its index."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from llmbx.api import LlmbxError, Scalar, Value
from llmbx.api.verbs import Install, Run, Selection

from . import foreign_tags
from .index import clear, use_index
from .query import ALL, check_measures, count, documents, folders, rows
from .refresh import open_runs, refresh_all
from .scan import Progress, read_now, relative, update, write

if TYPE_CHECKING:
    import sqlite3

    from llmbx.api.verbs import Plugins

T = TypeVar("T")


class Listing(Value, frozen=True):
    """Result of a query: rows of columns or pieces of JSON.

    `fitting` is the number of runs that match without the limit, `of_others` how many more would
    match if runs of other users were selected too. `runs` is 0 if the install has no runs;
    `damaged` lists the folders whose record cannot be read, with the reason.
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


def with_index(
    install: Install, work: Callable[[sqlite3.Connection], T], progress: Progress | None = None
) -> T:
    """Return what `work` returns for an up-to-date index; `work` may be called twice."""

    def updated(db: sqlite3.Connection) -> T:
        update(db, install, progress)
        return work(db)

    return use_index(install, updated, say)


def list_runs(
    install: Install,
    plugins: Callable[[], Plugins],
    selection: Selection,
    columns: Sequence[str] | None,
    progress: Progress | None = None,
) -> Listing:
    """The selected runs with these columns (None: complete, as JSON).

    Runs of this user that have ended since the last query are finalized now; `plugins` is called
    only if there are unfinished runs.
    """

    def work(db: sqlite3.Connection) -> Listing:
        check_measures(db, selection, columns or ())
        if open_runs(db):
            refresh_all(db, install, plugins())
        pieces = documents(db, selection) if columns is None else []
        lines = rows(db, selection, columns) if columns is not None else []
        shown = len(pieces) + len(lines)
        others = 0
        if selection.user is None:
            others = count(db, selection.replace(user=ALL)) - count(db, selection)
        return Listing(
            rows=tuple(lines),
            documents=tuple(pieces),
            fitting=count(db, selection) if shown == selection.limit else shown,
            runs=shown or count(db, Selection()),
            of_others=others,
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
    """Read a run again into this user's index: another user's run, which this user has tagged."""

    def work(db: sqlite3.Connection) -> None:
        folder = relative(install, run.path)
        row = db.execute("SELECT path FROM runs WHERE folder = ?", (folder,)).fetchone()
        if row is not None:
            write(db, install, [read_now(install, row[0], folder)], {})

    with_index(install, work)


def select(install: Install, selection: Selection) -> list[Run]:
    """The selected runs with a readable record, newest first unless sorted otherwise."""
    runs = []
    for folder in with_index(install, lambda db: folders(db, selection)):
        try:
            runs.append(Run.read(install.path / folder))
        except LlmbxError:
            continue  # of another version of llmbx: whoever names the run is told so
    return runs


def tagged(install: Install, tag: str) -> str | None:
    """The folder of the newest run with this tag; None without one.

    Runs of this user come before those of others to which this user gave the tag, and these before
    all others.
    """

    def work(db: sqlite3.Connection) -> list[str]:
        own = folders(db, Selection(tags=(tag,), user=None, limit=1))
        return own or folders(db, Selection(tags=(tag,)))

    paths = [install.path / folder for folder in with_index(install, work)]
    chosen = next((path for path in paths if tag in foreign_tags.of(path)), None)
    return str(chosen or paths[0]) if paths else None


def _tags(db: sqlite3.Connection) -> set[str]:
    texts = db.execute("SELECT DISTINCT tags FROM runs").fetchall()
    return {tag for (text,) in texts for tag in str(text or "").split()}
