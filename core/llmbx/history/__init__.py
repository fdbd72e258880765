"""Runs of an install: list and select them through an index, and find one by id, prefix, job id or tag."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..config.install import RECORD, Install
from ..errors import LlmbxError, UsageError, did_you_mean
from ..model import Scalar, Value
from ..phrases import plural
from ..record.folder import Run, current_user, read_run
from . import foreign_tags
from .columns import COLUMNS, Entry
from .index import clear, use_index
from .query import Selection, check_measures, count, documents, folders, rows
from .refresh import open_runs, refresh_all, refresh_result
from .scan import Progress, read_now, relative, update, write

if TYPE_CHECKING:
    import sqlite3

    from ..plugins.manager import Plugins

__all__ = [
    "COLUMNS",
    "Entry",
    "Listing",
    "Selection",
    "complete",
    "find_run",
    "known_tags",
    "list_runs",
    "rebuild",
    "refresh_result",
    "reread",
    "select",
    "tag_named",
    "with_index",
]

T = TypeVar("T")

_LAST = re.compile(r"last(~(?P<before>\d{1,6}))?")

SHORTEST_PREFIX = 3
"""Number of characters from which a text can be the beginning of a short id."""

SUGGESTIONS_FROM = 50
"""Number of the newest runs among which a similar id is searched for a misspelled one."""


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
            of_others=count(db, wanted.replace(own=None)) - count(db, wanted) if wanted.own else 0,
            damaged=tuple(db.execute("SELECT folder, why FROM damaged ORDER BY folder")),
        )

    return with_index(install, work, progress)


def known_tags(install: Install) -> set[str]:
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


def find_run(install: Install, text: str) -> Run:
    """The run with this short id or run id, a unique prefix of one, its folder, or its scheduler's job id.

    "last" is the newest of this user, "last~2" the second before it, `@NAME` or `tag:NAME` the newest run with this
    tag. This user's runs come before those of others, who can give a run any name and tag. Raises `UsageError` if no
    run or several match.
    """
    folder = Path(text)
    with contextlib.suppress(ValueError):  # a name that no file system takes
        if os.path.lexists(folder / RECORD):  # `read_run` says why it cannot be read
            return read_run(folder)
    matches = with_index(install, lambda db: _named(db, install, text)) or _of_earlier_job(install, text)
    if not matches:
        raise UsageError(f"no run '{text}'{with_index(install, lambda db: _hint(db, install, text))}")
    if len(matches) > 1:
        newest = ", ".join(_both_names(install, folder) for folder in matches[:3]) + (" …" if len(matches) > 3 else "")
        raise UsageError(f"'{text}' matches {len(matches)} runs; be more specific: {newest}")
    return read_run(install.path / matches[0])


def tag_named(text: str) -> str | None:
    """The tag in `@NAME` or `tag:NAME`, else None."""
    return next((text.removeprefix(sign) for sign in ("tag:", "@") if text.startswith(sign)), None)


def complete(install: Install, begun: str, limit: int = 50) -> list[tuple[str, str]]:
    """Short ids that begin with `begun`, newest first, each with what the run is: for the shell's completion."""

    def work(db: sqlite3.Connection) -> list[tuple[str, str]]:
        columns = ("id", "workload.name", "workload.size", "status", "created")
        completions = []
        for name, workload, size, status, created in rows(
            db, Selection(where=f"id LIKE '{begun}%'", limit=limit), columns
        ):
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(created or 0)))
            completions.append((str(name), f"{workload} {size}, {status}, {when}"))
        return completions

    return with_index(install, work) if begun.isalnum() or not begun else []


def _named(db: sqlite3.Connection, install: Install, text: str) -> list[str]:
    """The folders of the matching runs, newest first."""
    if back := _LAST.fullmatch(text):
        before = int(back["before"] or 0)
        return folders(db, Selection(own=current_user(), limit=before + 1))[before:]
    if (tag := tag_named(text)) is not None:
        return _tagged(db, install, tag)
    query = 'SELECT folder, "user" FROM runs WHERE {} ORDER BY "created" DESC'
    matches = db.execute(query.format('"id" = ?1 OR "run_id" = ?1 OR "job_id" = ?1'), (text,)).fetchall()
    for name in ("id", "run_id") if len(text) >= SHORTEST_PREFIX else ("run_id",):
        begins = f'"{name}" >= ?1 AND "{name}" < ?1 || char(1114111)'
        if text and not matches:
            matches = db.execute(query.format(begins), (text,)).fetchall()
    own = [folder for folder, user in matches if user == current_user()]
    return own or [folder for folder, _ in matches]


def _tagged(db: sqlite3.Connection, install: Install, tag: str) -> list[str]:
    """The folder of the newest run that this user tagged, else of the newest with the tag; empty without one."""
    own = folders(db, Selection(tags=(tag,), own=current_user(), limit=1))
    tagged = [] if own else folders(db, Selection(tags=(tag,)))
    return own or [folder for folder in tagged if tag in foreign_tags.of(install.path / folder)][:1] or tagged[:1]


def _both_names(install: Install, folder: str) -> str:
    run = read_run(install.path / folder)
    return f"{run.record.id} ({run.record.run_id})"


def _of_earlier_job(install: Install, job_id: str) -> list[str]:
    """The folders of the runs that have an earlier attempt with this job id."""
    tried = select(install, Selection(where="attempt > 0"))
    return [run.folder for run in tried if job_id in (a.job.job_id for a in run.record.attempts if a.job is not None)]


def _tags(db: sqlite3.Connection) -> set[str]:
    return {tag for (tags,) in db.execute("SELECT DISTINCT tags FROM runs") for tag in str(tags or "").split()}


def _hint(db: sqlite3.Connection, install: Install, text: str) -> str:
    if tag_named(text) is not None:
        sign = "@" if text.startswith("@") else "tag:"
        return did_you_mean(text, {f"{sign}{tag}" for tag in _tags(db)}) or "; no run has a tag"
    names = [str(name) for (name,) in rows(db, Selection(limit=SUGGESTIONS_FROM), ["run_id"])]
    if not names:
        return f"; {install.root} has no runs"
    if _LAST.fullmatch(text):
        own = count(db, Selection(own=current_user()))
        if own:
            return f"; you have {plural(own, 'runs')} in {install.root}"
        return f"; no run in {install.root} is yours, see `llmbx jobs --user all`"
    near = did_you_mean(text, names)
    if near.startswith(" (did"):
        return near
    alike = [name for name in names if text and text in name]
    if alike:
        return f" (runs containing it: {', '.join(alike[:3])}; see `llmbx jobs`)"
    newest = [str(name) for (name,) in rows(db, Selection(limit=3), ["id"])]
    return f" (newest runs: {', '.join(newest)}; see `llmbx jobs`)"
