"""Tags of a run: words to find it by, in a file of its folder; without it, those of its start.

Only a run's owner writes into its folder: `foreign_tags` has what a user gives to others' runs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from llmbx.api import NOT_JSON, InfraError, RunFolder, UsageError, decode, disk_errors
from llmbx.api.verbs import Run, check_tags

from . import foreign_tags

FILE = "tags.json"
_LOCK_TIMEOUT_S = 10.0


def read_tags(folder: Path, started: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The tags of the run in a folder, also those that this user gave to another user's run.

    `started` are those it was started with, which count without a file of tags.
    """
    try:
        owner, (content,) = RunFolder(path=folder).read_several(FILE)
    except OSError:
        return started
    return tags_in(folder, owner, content, started)


def tags_in(
    folder: Path, owner: int, content: bytes | OSError, started: tuple[str, ...]
) -> tuple[str, ...]:
    """The tags of the run in a folder of this owner, whose file of tags has been read."""
    try:
        tags = started if isinstance(content, OSError) else tuple(decode(content, list[str]))
    except NOT_JSON:
        tags = started
    if owner == os.geteuid():
        return tags
    return tuple(dict.fromkeys((*tags, *foreign_tags.of(folder))))


def tags_of(run: Run) -> tuple[str, ...]:
    """The current tags of the run."""
    return read_tags(run.path, run.record.spec.tags)


def change_tags(run: Run, add: Iterable[str] = (), remove: Iterable[str] = ()) -> tuple[str, ...]:
    """Add and remove tags of a run and return its tags; changes by other processes are kept.

    The tags of another user's run are stored with this user (`foreign_tags`). Raises `UsageError`
    for an invalid tag and for one that only the run's owner can remove, `InfraError` if the file
    cannot be written.
    """
    added, removed = check_tags(add), set(remove)
    if not run.files.own:
        foreign_tags.change(run.path, added, removed)
        if kept := next((tag for tag in tags_of(run) if tag in removed), None):
            setter = f"tag '{kept}' was set by {run.files.owner}, who alone can remove it"
            raise UsageError(f"{run.record.run_id}: {setter}")
        return tags_of(run)
    with disk_errors(f"the tags of {run.record.run_id}"), locked(run.files, FILE):
        tags = tuple(tag for tag in dict.fromkeys((*tags_of(run), *added)) if tag not in removed)
        run.files.write(FILE, msgspec.json.encode(tags) + b"\n")
    run.announce_change()
    return tags


@contextlib.contextmanager
def locked(files: RunFolder, name: str) -> Iterator[None]:
    """Hold the lock on a file of a run folder.

    Raises `InfraError` if another process holds it for too long.
    """
    import fcntl

    until = time.monotonic() + _LOCK_TIMEOUT_S
    with files.append(f".{name}.lock") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    problem = "another process has held the lock on its tags for 10 s"
                    raise InfraError(f"{files.path}: {problem}") from None
                time.sleep(0.02)
        yield
