"""Tags of a run: words to find it by, stored in a file of its folder; without the file, those it was started with."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..codec import decode
from ..errors import InfraError, UsageError
from ..files import disk_errors, write_atomic
from ..record.folder import Run
from ..toml_file import NOT_JSON

FILE = "tags.json"
_WORD = re.compile(r"[A-Za-z0-9][\w.+:/-]*")
_LOCK_TIMEOUT_S = 10.0


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags without duplicates. Raises `UsageError` for an invalid tag."""
    for tag in tags:
        if not _WORD.fullmatch(tag):
            raise UsageError(f"tag '{tag}': expected one word of letters, digits and . _ + : / - (example: accepted)")
    return tuple(dict.fromkeys(tags))


def read_tags(folder: Path) -> tuple[str, ...] | None:
    """The tags in the file; None if it is missing or cannot be read."""
    try:
        return tuple(decode((folder / FILE).read_bytes(), list[str]))
    except (OSError, *NOT_JSON):
        return None


def tags_of(run: Run) -> tuple[str, ...]:
    """The current tags of the run."""
    known = read_tags(run.path)
    return run.record.spec.tags if known is None else known


def change_tags(run: Run, add: Iterable[str] = (), remove: Iterable[str] = ()) -> tuple[str, ...]:
    """Add and remove tags of a run and return its tags; concurrent changes by other processes are preserved.

    Raises `UsageError` for an invalid tag, `InfraError` if the file cannot be written.
    """
    from filelock import FileLock, Timeout

    added, gone = check_tags(add), set(remove)
    with disk_errors(f"the tags of {run.record.run_id}"):
        try:
            with FileLock(run.path / f".{FILE}.lock", timeout=_LOCK_TIMEOUT_S):
                tags = tuple(tag for tag in dict.fromkeys((*tags_of(run), *added)) if tag not in gone)
                write_atomic(run.path / FILE, msgspec.json.encode(tags) + b"\n")
        except Timeout:
            raise InfraError(f"{run.record.run_id}: another process has held the lock on its tags for 10 s") from None
    announce(run.path)
    return tags


def announce(folder: Path) -> None:
    """Make every index read this finished run again, by updating the change time of its experiment's folder."""
    with contextlib.suppress(OSError):
        os.utime(folder.parent.parent)
