"""Search a run folder for files without following links, and within limits: it may be a stranger's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from .door import entered, parts

MOST_ENTRIES = 200_000
"""Maximum number of names that a search looks at in one folder."""

DEEPEST = 12
"""Maximum number of folders below each other that `**` stands for."""


def matching(root: Path, pattern: str) -> list[str]:
    """The names of the files below `root` that match, sorted; `**` stands for any number of folders."""
    return sorted(set(_matching(root, "", pattern.split("/"), 0)))


def entries(root: Path, folder: str = "", most: int | None = MOST_ENTRIES) -> list[tuple[str, bool]]:
    """The names in the folder of this name without those of links, and whether each is a folder.

    Empty for a folder that cannot be read.
    """
    try:
        with entered(root, parts(folder) if folder else ()) as (where, _), os.scandir(where) as listed:
            kept = (entry for entry in islice(listed, most) if not entry.is_symlink())
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in kept]
    except OSError:
        return []


def below(root: Path) -> Iterator[str]:
    """The names of all files below `root`."""
    folders = [""]
    while folders:
        folder = folders.pop()
        for name, is_folder in entries(root, folder, most=None):
            inside = f"{folder}/{name}" if folder else name
            if is_folder:
                folders.append(inside)
            else:
                yield inside


def _matching(root: Path, folder: str, parts: list[str], depth: int) -> Iterator[str]:
    head, rest = parts[0], parts[1:]
    if head == "**":
        yield from _matching(root, folder, rest or ["*"], depth)
    for name, is_folder in entries(root, folder) if depth <= DEEPEST else ():
        inside = f"{folder}/{name}" if folder else name
        if head == "**":
            if is_folder:
                yield from _matching(root, inside, parts, depth + 1)
        elif is_folder == bool(rest) and fnmatchcase(name, head):
            yield from _matching(root, inside, rest, depth) if rest else (inside,)
