"""Short ids of runs: four to eight of 0-9 a-z, unique in an install, short enough to type.

An id is claimed as a link `ids/ID` of the install to the run's folder. Creating a link is exclusive, also on shared
file systems, so that two processes never get the same id. The record has the id too; the links only keep it unique.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..config.install import Install

FOLDER = "ids"
SHORTEST, LONGEST = 4, 8
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def claim(install: Install, run_id: str, folder: Path) -> str:
    """A new id for the run in `folder`; where no link can be created, the longest one, which nothing reserves."""
    links = _links(install)
    target = os.path.relpath(folder, links) if folder.is_relative_to(install.path) else str(folder)
    with contextlib.suppress(OSError):
        links.mkdir(exist_ok=True)
        for candidate in candidates(run_id):
            with contextlib.suppress(FileExistsError):
                (links / candidate).symlink_to(target)
                return candidate
    return derived(run_id)


def candidates(run_id: str) -> Iterator[str]:
    """Ids for a run, the shortest first. Each has a letter, so that no id can be a scheduler's job id."""
    import hashlib  # loads OpenSSL

    attempt = 0
    while True:
        text = _base36(hashlib.sha256(f"{run_id}\0{attempt}".encode()).digest())
        lengths = range(SHORTEST, LONGEST + 1) if attempt == 0 else (LONGEST,)
        yield from (text[:length] for length in lengths if not text[:length].isdigit())
        attempt += 1


def derived(run_id: str) -> str:
    """The longest id of a run, which needs no link to be unique in practice."""
    return next(candidate for candidate in candidates(run_id) if len(candidate) == LONGEST)


def linked(install: Install, name: str) -> Path | None:
    """The folder to which the link of this id leads; None if there is no such link."""
    links = _links(install)
    try:
        return Path(os.path.normpath(links / (links / name).readlink()))
    except (OSError, ValueError):
        return None


def _links(install: Install) -> Path:
    """The folder of links; beside the runs if these are stored outside of an install that is read-only."""
    if install.workload_root and not os.access(install.path, os.W_OK):
        return Path(install.workload_root) / FOLDER
    return install.path / FOLDER


def _base36(digest: bytes) -> str:
    number, text = int.from_bytes(digest, "big"), ""
    while len(text) < LONGEST:
        number, digit = divmod(number, 36)
        text += _DIGITS[digit]
    return text
