"""Find one run of an install by its name, from the folders alone.

The names of the folders say which few records have to be read; only a job id may be in any of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from ..codec import decode
from ..config.install import Install
from ..errors import UsageError
from ..model.run_folder import RECORD
from ..phrases import did_you_mean, plural
from ..run_files import RunFolder
from ..toml_file import NOT_JSON
from .folder import RESULT, Run, read_run
from .places import (
    NamedRun,
    Place,
    all_places,
    linked,
    place_at,
    read_newest,
    read_place,
    with_id_like,
)

SHORTEST_PREFIX = 3
"""Number of characters from which a text can be the beginning of a short id."""

SUGGESTIONS_FROM = 50
"""Number of the newest runs among which a similar id is searched for a misspelled one."""

CLAIM_S = 60.0
"""Seconds within which a run that has claimed its folder has its record."""

_LAST = re.compile(r"last(~(?P<before>\d{1,6}))?")
_JOB_ID = re.compile(r"\d[\d_.+:-]*")

FoldersOfJob = Callable[[str], Iterable[str] | None]
"""Where the runs with a job id may be; None if that is unknown."""


class _Status(msgspec.Struct):
    status: str = "unknown"


def find_run(install: Install, text: str, folders_of: FoldersOfJob | None = None) -> Run:
    """The run with this short id or run id, a unique prefix of one, its folder, or its job id.

    "last" is the newest of this user, "last~2" the second before it. This user's runs come before
    those of others, who can give a run any name. `folders_of` is asked for a job id; if it is
    unknown, all records are read. Raises `UsageError` if no run or several match.
    """
    with contextlib.suppress(ValueError):  # a name that no file system takes
        if os.path.lexists(Path(text) / RECORD):  # `read_run` says why it cannot be read
            return read_run(Path(text))
    runs = _direct(install, text) or _searched(install, text, folders_of)
    if len(runs) > 1:
        newest = ", ".join(f"{run.record.id} ({run.run_id})" for run in runs[:3])
        more = " …" if len(runs) > 3 else ""
        problem = f"'{text}' matches {len(runs)} runs; be more specific: {newest}{more}"
        raise UsageError(problem)
    return read_run(Path(runs[0].folder))


def tag_named(text: str) -> str | None:
    """The tag in `@NAME` or `tag:NAME`, else None."""
    signs = (sign for sign in ("tag:", "@") if text.startswith(sign))
    return next((text.removeprefix(sign) for sign in signs), None)


def complete(install: Install, begun: str, limit: int = 50) -> list[tuple[str, str]]:
    """Short ids that begin with `begun`, newest first, each with what the run is."""
    alike = with_id_like(all_places(install), begun)
    runs = (run for run in read_newest(alike) if run.record.id.startswith(begun))
    return [(run.record.id, _description(run)) for run in islice(runs, limit)]


def _description(run: NamedRun) -> str:
    """The workload of a run, its status, and when it was created."""
    status = _Status()
    with contextlib.suppress(OSError, *NOT_JSON):
        status = decode(RunFolder(path=Path(run.folder)).read(RESULT), _Status)
    created = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created))
    return f"{run.record.spec.workload} {run.record.spec.size}, {status.status}, {created}"


def _direct(install: Install, text: str) -> list[NamedRun]:
    """This user's runs with this short id or run id, where they usually are."""
    folders = []
    experiment, _, second = text.rpartition("_")
    if second.isdigit() and "/" not in text:
        folders += [base / experiment / text / experiment for base in install.all_experiments()]
    if link := linked(install, text):
        folders.append(Path(link.folder))
    runs = [run for folder in folders for run in read_place(str(folder))]
    return [run for run in runs if run.own and text in (run.run_id, run.record.id)]


def _searched(install: Install, text: str, folders_of: FoldersOfJob | None) -> list[NamedRun]:
    """The runs with this name, newest first: this user's, else those of others.

    Raises `UsageError` if there are none.
    """
    places = all_places(install)
    if back := _LAST.fullmatch(text):
        before = int(back["before"] or 0)
        own = _own_newest(places, before + 1)
        if len(own) <= before:
            raise UsageError(f"no run '{text}'{_hint_of_last(install, places, len(own))}")
        return [own[before]]
    link = linked(install, text)
    runs = _with_name([*places, link] if link else places, text, link)
    if not runs and _JOB_ID.fullmatch(text):
        runs = _of_job(places, text, folders_of)
    if not runs and text:
        runs = _with_beginning(places, text) or _of_job(places, text, folders_of)
    if not runs:
        raise UsageError(f"no run '{text}'{_hint(install, places, text)}")
    newest = sorted(runs, reverse=True)
    return [run for run in newest if run.own] or newest


def _with_name(places: Sequence[Place], text: str, link: Place | None) -> list[NamedRun]:
    alike = {place for place in places if place.run_id == text or place == link}
    runs = read_newest(alike.union(with_id_like(places, text)))
    return [run for run in runs if text in (run.run_id, run.record.id)]


def _with_beginning(places: Sequence[Place], text: str) -> list[NamedRun]:
    """The runs whose short id begins so, else those whose run id does."""
    alike = with_id_like(places, text) if len(text) >= SHORTEST_PREFIX else []
    begun = [run for run in read_newest(alike) if run.record.id.startswith(text)]
    return begun or [*read_newest(place for place in places if place.run_id.startswith(text))]


def _of_job(places: Sequence[Place], job_id: str, folders_of: FoldersOfJob | None) -> list[NamedRun]:
    """This user's newest run with this job id, else those of others, else of an earlier attempt."""
    folders = folders_of(job_id) if folders_of is not None else None
    if folders is not None:
        places = [place_at(Path(folder)) for folder in folders]
    others: list[NamedRun] = []
    earlier: list[NamedRun] = []
    for run in read_newest(places):
        if run.record.job and run.record.job.job_id == job_id:
            if run.own:
                return [run]
            others.append(run)
        elif any(attempt.job and attempt.job.job_id == job_id for attempt in run.record.attempts):
            earlier.append(run)
    return others or earlier


def _own_newest(places: Sequence[Place], count: int) -> list[NamedRun]:
    """The newest runs of this user, newest first; at least `count` if there are so many."""
    own: list[NamedRun] = []
    for place in sorted(places, reverse=True):
        if len(own) >= count and place.stamp < own[count - 1].created - CLAIM_S:
            break
        own += (run for run in read_place(place.folder) if run.own)
    return sorted(own, reverse=True)


def _hint_of_last(install: Install, places: Sequence[Place], own: int) -> str:
    if not places:
        return f"; {install.root} has no runs"
    if own:
        return f"; you have {plural(own, 'runs')} in {install.root}"
    newest = next((run.record.id for run in read_newest(places)), None)
    named = f" (the newest of others: {newest})" if newest else ""
    return f"; no run in {install.root} is yours{named}, see `llmbx jobs --user all`"


def _hint(install: Install, places: Sequence[Place], text: str) -> str:
    newest = sorted(places, reverse=True)[:SUGGESTIONS_FROM]
    names = [place.run_id for place in newest]
    if not names:
        return f"; {install.root} has no runs"
    near = did_you_mean(text, names)
    if near.startswith(" (did"):
        return near
    alike = [name for name in names if text and text in name]
    if alike:
        return f" (runs containing it: {', '.join(alike[:3])}; see `llmbx jobs`)"
    ids = [run.record.id for run in islice(read_newest(newest), 3)]
    return f" (newest runs: {', '.join(ids)}; see `llmbx jobs`)"
