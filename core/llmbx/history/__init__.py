"""The runs of an install: kept in an index that can be made anew, and found by id, prefix, job id, tag or condition."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..config.install import RECORD, Install
from ..errors import LlmbxError, UsageError, did_you_mean
from ..model import Scalar, Value
from ..record.folder import Run, read_run
from .columns import COLUMNS, Entry
from .index import clear, using
from .query import Selection, count, documents, folders, rows
from .scan import Progress, refresh
from .settle import open_runs, settle, settle_all, standing

if TYPE_CHECKING:
    import sqlite3

    from ..plugins.manager import Plugins

__all__ = [
    "COLUMNS",
    "Entry",
    "Listing",
    "Selection",
    "find_run",
    "known_tags",
    "listed",
    "rebuild",
    "select",
    "settle",
    "standing",
    "with_index",
]

T = TypeVar("T")

LOOKED_AT = 50
"""Among so many of the newest runs the one is looked for that a misspelt id means."""


class Listing(Value, frozen=True):
    """What was asked of the history: rows of columns, or pieces of JSON, of how many runs in all that fit.

    `runs` is 0 where the install has none, `damaged` has the folders whose record cannot be read, with the reason.
    """

    rows: tuple[tuple[Scalar, ...], ...] = ()
    documents: tuple[str, ...] = ()
    fitting: int = 0
    runs: int = 0
    damaged: tuple[tuple[str, str], ...] = ()


@functools.cache
def say(line: str) -> None:
    """A note on stderr, once however often a command asks."""
    print(f"llmbx: note: {line}", file=sys.stderr)


def with_index(install: Install, work: Callable[[sqlite3.Connection], T], progress: Progress | None = None) -> T:
    """What `work` makes of an index that knows every run; it may be called twice."""

    def fresh(db: sqlite3.Connection) -> T:
        refresh(db, install, progress)
        return work(db)

    return using(install, fresh, say)


def listed(
    install: Install,
    plugins: Callable[[], Plugins],
    wanted: Selection,
    columns: Sequence[str] | None,
    progress: Progress | None = None,
) -> Listing:
    """The runs that are wanted, with these columns (None: whole, as JSON).

    Runs that have ended since they were last looked at get their result now; `plugins` is asked for only then.
    """

    def work(db: sqlite3.Connection) -> Listing:
        if open_runs(db):
            settle_all(db, install, plugins())
        pieces = documents(db, wanted) if columns is None else []
        lines = rows(db, wanted, columns) if columns is not None else []
        shown = len(pieces) + len(lines)
        return Listing(
            rows=tuple(lines),
            documents=tuple(pieces),
            fitting=count(db, wanted) if shown == wanted.limit else shown,
            runs=shown or count(db, Selection()),
            damaged=tuple(db.execute("SELECT folder, why FROM damaged ORDER BY folder")),
        )

    return with_index(install, work, progress)


def known_tags(install: Install) -> set[str]:
    """Every tag that some run has."""
    return with_index(install, _tags)


def rebuild(install: Install, progress: Progress | None = None) -> int:
    """Make the index anew from the folders; how many runs it has then."""

    def work(db: sqlite3.Connection) -> int:
        clear(db)
        refresh(db, install, progress)
        return count(db, Selection())

    return using(install, work, say)


def select(install: Install, wanted: Selection) -> list[Run]:
    """The readable runs that are wanted, newest first unless sorted otherwise."""
    found = []
    for folder in with_index(install, lambda db: folders(db, wanted)):
        try:
            found.append(read_run(install.path / folder))
        except LlmbxError:
            # Written by a newer llmbx: `find_run` names it, a search goes on without it.
            continue
    return found


def find_run(install: Install, text: str) -> Run:
    """The run with this id, a unique prefix of it, its folder, or its scheduler's job id; "last" is the newest.

    `tag:NAME` is the newest run with this tag. Raises `UsageError` when none or several match.
    """
    folder = Path(text)
    if (folder / RECORD).is_file():
        return read_run(folder)
    found = with_index(install, lambda db: _named(db, text)) or _of_earlier_job(install, text)
    if not found:
        raise UsageError(f"no run '{text}'{with_index(install, lambda db: _hint(db, install, text))}")
    if len(found) > 1:
        newest = ", ".join(Path(folder).parent.name for folder in found[:3])
        raise UsageError(f"'{text}' fits {len(found)} runs; be more exact: {newest}{' …' if len(found) > 3 else ''}")
    return read_run(install.path / found[0])


def _named(db: sqlite3.Connection, text: str) -> list[str]:
    """The folders of the runs that are meant, newest first."""
    if text == "last":
        return folders(db, Selection(limit=1))
    if text.startswith("tag:"):
        return folders(db, Selection(tags=(text.removeprefix("tag:"),), limit=1))
    exact = 'SELECT folder FROM runs WHERE "run_id" = ?1 OR "job_id" = ?1 ORDER BY "created" DESC'
    prefix = 'SELECT folder FROM runs WHERE "run_id" >= ?1 AND "run_id" < ?1 || char(1114111) ORDER BY "created" DESC'
    found = db.execute(exact, (text,)).fetchall() or (db.execute(prefix, (text,)).fetchall() if text else [])
    return [folder for (folder,) in found]


def _of_earlier_job(install: Install, job_id: str) -> list[str]:
    """The folders of the runs of which an earlier attempt was this job."""
    tried = select(install, Selection(where="attempt > 0"))
    return [run.folder for run in tried if job_id in (a.job.job_id for a in run.record.attempts if a.job is not None)]


def _tags(db: sqlite3.Connection) -> set[str]:
    return {tag for (tags,) in db.execute("SELECT DISTINCT tags FROM runs") for tag in str(tags or "").split()}


def _hint(db: sqlite3.Connection, install: Install, text: str) -> str:
    if text.startswith("tag:"):
        return did_you_mean(text, {f"tag:{tag}" for tag in _tags(db)}) or "; no run has a tag"
    names = [str(name) for (name,) in rows(db, Selection(limit=LOOKED_AT), ["run_id"])]
    if not names:
        return f"; {install.root} has no runs"
    near = did_you_mean(text, names)
    if near.startswith(" (did"):
        return near
    alike = [name for name in names if text and text in name]
    what = f"with it in {'their names' if len(alike) > 1 else 'its name'}" if alike else "the newest"
    return f" ({what}: {', '.join((alike or names)[:3])}; `llmbx jobs` lists them)"
