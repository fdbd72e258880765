"""Find one run of an install by its name, from the folders alone.

A run folder is EXPERIMENT/RUN_ID/EXPERIMENT, a run id ends with the second in which the run was
created, and a short id is derived from the run id. So the names of the folders say which few records
have to be read; only a job id may be in any of them.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..codec import decode
from ..config.install import RECORD, Install
from ..errors import UsageError, did_you_mean
from ..files import user_name
from ..model import Date
from ..phrases import plural
from ..run_files import RunFolder
from ..toml_file import NOT_JSON
from . import short_ids
from .folder import RESULT, Run, read_run
from .host import current_user

SHORTEST_PREFIX = 3
"""Number of characters from which a text can be the beginning of a short id."""

SUGGESTIONS_FROM = 50
"""Number of the newest runs among which a similar id is searched for a misspelled one."""

MOST_FOLDERS = 100
"""Number of folders beside each other that are looked at for a record; there is one."""

CLAIM_S = 60.0
"""Seconds within which a run that has claimed its folder has its record."""

_LAST = re.compile(r"last(~(?P<before>\d{1,6}))?")
_ID = re.compile(rf"[0-9a-z]{{0,{short_ids.LONGEST}}}")
_JOB_ID = re.compile(r"\d[\d_.+:-]*")


FoldersOfJob = Callable[[str], Iterable[str] | None]
"""Where the runs with a job id may be; None if that is unknown."""


class Place(NamedTuple):
    """Where a run may be: the second in its name (infinite without one), its run id, its folder."""

    stamp: float
    run_id: str
    folder: str


class _Job(msgspec.Struct):
    job_id: str | None = None


class _Attempt(msgspec.Struct):
    job: _Job | None = None


class _Spec(msgspec.Struct):
    workload: str = ""
    size: str = ""


class _Record(msgspec.Struct):
    """The part of a record by which its run is found, also of one of another version."""

    run_id: str
    id: str
    created: Date
    user: str | None = None
    job: _Job | None = None
    attempts: tuple[_Attempt, ...] = ()
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Status(msgspec.Struct):
    status: str = "unknown"


class _Named(NamedTuple):
    """A run by the names in its record; `own` says whether it is this user's."""

    created: float
    run_id: str
    folder: str
    own: bool
    record: _Record


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
    alike = _with_id_like(_places(install), begun)
    runs = (run for run in _read_newest(alike) if run.record.id.startswith(begun))
    return [(run.record.id, _description(run)) for run in islice(runs, limit)]


def _description(run: _Named) -> str:
    """The workload of a run, its status, and when it was created."""
    status = _Status()
    with contextlib.suppress(OSError, *NOT_JSON):
        status = decode(RunFolder(path=Path(run.folder)).read(RESULT), _Status)
    created = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created))
    return f"{run.record.spec.workload} {run.record.spec.size}, {status.status}, {created}"


def _direct(install: Install, text: str) -> list[_Named]:
    """This user's runs with this short id or run id, where they usually are."""
    folders = []
    experiment, _, second = text.rpartition("_")
    if second.isdigit() and "/" not in text:
        folders += [base / experiment / text / experiment for base in install.all_experiments()]
    if link := _linked(install, text):
        folders.append(Path(link.folder))
    runs = [run for folder in folders for run in _read(str(folder))]
    return [run for run in runs if run.own and text in (run.run_id, run.record.id)]


def _searched(install: Install, text: str, folders_of: FoldersOfJob | None) -> list[_Named]:
    """The runs with this name, newest first: this user's, else those of others.

    Raises `UsageError` if there are none.
    """
    places = _places(install)
    if back := _LAST.fullmatch(text):
        before = int(back["before"] or 0)
        own = _own_newest(places, before + 1)
        if len(own) <= before:
            raise UsageError(f"no run '{text}'{_hint_of_last(install, places, len(own))}")
        return [own[before]]
    link = _linked(install, text)
    runs = _with_name([*places, link] if link else places, text, link)
    if not runs and _JOB_ID.fullmatch(text):
        runs = _of_job(places, text, folders_of)
    if not runs and text:
        runs = _with_beginning(places, text) or _of_job(places, text, folders_of)
    if not runs:
        raise UsageError(f"no run '{text}'{_hint(install, places, text)}")
    newest = sorted(runs, reverse=True)
    return [run for run in newest if run.own] or newest


def _with_name(places: Sequence[Place], text: str, link: Place | None) -> list[_Named]:
    alike = {place for place in places if place.run_id == text or place == link}
    runs = _read_newest(alike.union(_with_id_like(places, text)))
    return [run for run in runs if text in (run.run_id, run.record.id)]


def _with_beginning(places: Sequence[Place], text: str) -> list[_Named]:
    """The runs whose short id begins so, else those whose run id does."""
    alike = _with_id_like(places, text) if len(text) >= SHORTEST_PREFIX else []
    begun = [run for run in _read_newest(alike) if run.record.id.startswith(text)]
    return begun or [*_read_newest(place for place in places if place.run_id.startswith(text))]


def _of_job(places: Sequence[Place], job_id: str, folders_of: FoldersOfJob | None) -> list[_Named]:
    """This user's newest run with this job id, else those of others, else of an earlier attempt."""
    folders = folders_of(job_id) if folders_of is not None else None
    if folders is not None:
        places = [_place(Path(folder)) for folder in folders]
    others: list[_Named] = []
    earlier: list[_Named] = []
    for run in _read_newest(places):
        if run.record.job and run.record.job.job_id == job_id:
            if run.own:
                return [run]
            others.append(run)
        elif any(attempt.job and attempt.job.job_id == job_id for attempt in run.record.attempts):
            earlier.append(run)
    return others or earlier


def _own_newest(places: Sequence[Place], count: int) -> list[_Named]:
    """The newest runs of this user, newest first; at least `count` if there are so many."""
    own: list[_Named] = []
    for place in sorted(places, reverse=True):
        if len(own) >= count and place.stamp < own[count - 1].created - CLAIM_S:
            break
        own += (run for run in _read(place.folder) if run.own)
    return sorted(own, reverse=True)


def _with_id_like(places: Sequence[Place], begun: str) -> list[Place]:
    """The places of runs whose short id may begin so, or be a beginning of it."""
    if not _ID.fullmatch(begun):
        return []
    return [place for place in places if short_ids.derived(place.run_id).startswith(begun)]


def _read_newest(places: Iterable[Place]) -> Iterator[_Named]:
    """The runs at these places, by the seconds in their names."""
    for place in sorted(places, reverse=True):
        yield from _read(place.folder)


def _read(folder: str) -> Iterator[_Named]:
    """The run in a folder, or in those beside it: the last folder may have another name.

    A run's user is the one in its record, unless the folder belongs to somebody else: a stranger
    could have his run taken for the user's, who repeats the `last`. Root may run it for a user.
    """
    folders = [folder]
    if not os.path.lexists(f"{folder}/{RECORD}"):
        parent = folder.rpartition("/")[0]
        folders = [f"{parent}/{name}" for name in _names(parent)[:MOST_FOLDERS]]
    for path in folders:
        with contextlib.suppress(OSError, ValueError, *NOT_JSON):
            owner, (content,) = RunFolder(path=Path(path)).read_several(RECORD)
            if isinstance(content, bytes):
                record = decode(content, _Record)
                user = record.user if owner in (0, os.geteuid()) else user_name(owner)
                yield _Named(record.created, record.run_id, path, user == current_user(), record)


def _places(install: Install) -> list[Place]:
    """The place of every run of the install."""
    return [
        Place(_second(run_id), run_id, f"{base}/{experiment}/{run_id}/{experiment}")
        for base in install.all_experiments()
        for experiment in _names(base)
        for run_id in _names(f"{base}/{experiment}")
    ]


def _linked(install: Install, text: str) -> Place | None:
    """The place to which the link of a short id leads."""
    folder = short_ids.linked(install, text) if _ID.fullmatch(text) else None
    return _place(folder) if folder else None


def _place(folder: Path) -> Place:
    return Place(_second(folder.parent.name), folder.parent.name, str(folder))


def _second(run_id: str) -> float:
    second = run_id.rpartition("_")[2]
    return float(second) if second.isdecimal() else math.inf


def _names(folder: Path | str) -> list[str]:
    """The names in a folder that are text, as all that llmbx creates."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (thousands of names: faster than `Path`)
        return [name for name in names if name.isascii() or _is_text(name)]
    except OSError:
        return []


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _hint_of_last(install: Install, places: Sequence[Place], own: int) -> str:
    if not places:
        return f"; {install.root} has no runs"
    if own:
        return f"; you have {plural(own, 'runs')} in {install.root}"
    return f"; no run in {install.root} is yours, see `llmbx jobs --user all`"


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
    ids = [run.record.id for run in islice(_read_newest(newest), 3)]
    return f" (newest runs: {', '.join(ids)}; see `llmbx jobs`)"
