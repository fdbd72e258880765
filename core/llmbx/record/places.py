"""Where the runs of an install are, and by which names their records call them.

A run folder is EXPERIMENT/RUN_ID/EXPERIMENT, a run id ends with the second in which the run was
created, and a short id is derived from the run id: the names of the folders say much without reading.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..codec import decode
from ..config.install import Install
from ..model import Date
from ..model.run_folder import RECORD
from ..run_files import RunFolder, user_name
from ..toml_file import NOT_JSON
from . import short_ids
from .host import current_user

MOST_FOLDERS = 100
"""Number of folders beside each other that are looked at for a record; there is one."""

_ID = re.compile(rf"[0-9a-z]{{0,{short_ids.LONGEST}}}")


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


class NamedRun(NamedTuple):
    """A run by the names in its record; `own` says whether it is this user's."""

    created: float
    run_id: str
    folder: str
    own: bool
    record: _Record


def read_newest(places: Iterable[Place]) -> Iterator[NamedRun]:
    """The runs at these places, by the seconds in their names."""
    for place in sorted(places, reverse=True):
        yield from read_place(place.folder)


def read_place(folder: str) -> Iterator[NamedRun]:
    """The run in a folder, or in those beside it: the last folder may have another name.

    A run's user is the one in its record, unless the folder belongs to somebody else: a stranger
    could have his run taken for the user's, who repeats the `last`. Root may run it for a user.
    """
    folders = [folder]
    if not os.path.lexists(f"{folder}/{RECORD}"):
        parent = folder.rpartition("/")[0]
        folders = [f"{parent}/{name}" for name in _folder_names(parent)[:MOST_FOLDERS]]
    for path in folders:
        with contextlib.suppress(OSError, ValueError, *NOT_JSON):
            owner, (content,) = RunFolder(path=Path(path)).read_several(RECORD)
            if isinstance(content, bytes):
                record = decode(content, _Record)
                user = record.user if owner in (0, os.geteuid()) else user_name(owner)
                yield NamedRun(record.created, record.run_id, path, user == current_user(), record)


def all_places(install: Install) -> list[Place]:
    """The place of every run of the install."""
    return [
        Place(_second(run_id), run_id, f"{base}/{experiment}/{run_id}/{experiment}")
        for base in install.all_experiments()
        for experiment in _folder_names(base)
        for run_id in _folder_names(f"{base}/{experiment}")
    ]


def place_at(folder: Path) -> Place:
    """The place of the run in a folder."""
    return Place(_second(folder.parent.name), folder.parent.name, str(folder))


def linked(install: Install, text: str) -> Place | None:
    """The place to which the link of a short id leads."""
    folder = short_ids.linked(install, text) if _ID.fullmatch(text) else None
    return place_at(folder) if folder else None


def with_id_like(places: Sequence[Place], begun: str) -> list[Place]:
    """The places of runs whose short id may begin so, or be a beginning of it."""
    if not _ID.fullmatch(begun):
        return []
    return [place for place in places if short_ids.derived(place.run_id).startswith(begun)]


def _second(run_id: str) -> float:
    second = run_id.rpartition("_")[2]
    return float(second) if second.isdecimal() else math.inf


def _folder_names(folder: Path | str) -> list[str]:
    """The names in a folder that are text, as all that llmbx creates."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (thousands of names: faster than `Path`)
        return [name for name in names if name.isascii() or _is_text(name)]
    except OSError:
        return []


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)
