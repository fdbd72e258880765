"""Earlier attempts of a run, stored with all their files in `attempts/N` of the run folder."""

from __future__ import annotations

import os
from pathlib import Path

from ..files import disk_errors
from ..model.run_folder import RECORD
from ..run_files import RunFolder

FOLDER = "attempts"
STAYS = (RECORD, FOLDER, "tags.json")
"""Files that belong to the run and not to one attempt."""
UNFINISHED = ".exit.json"
"""Partially written exit file of the run's script."""


def stored_attempts(run_dir: Path) -> int:
    """Number of earlier attempts in the run folder."""
    return len(earlier_numbers(RunFolder(path=run_dir)))


def earlier_numbers(folder: RunFolder) -> list[int]:
    """The numbers of the earlier attempts, in order."""
    return sorted(int(name) for name in folder.folders(FOLDER) if name.isascii() and name.isdigit())


def next_folder(run_dir: Path) -> Path:
    """Create and return the folder of the next attempt: the first unused number. Raises `OSError`."""
    number = 0
    while not RunFolder(path=run_dir).make_folder(f"{FOLDER}/{number}"):
        number += 1
    return run_dir / FOLDER / str(number)


def archive(run_dir: Path, folder: Path) -> None:
    """Move all files of an attempt into its folder, so that they are not mistaken for those of the next attempt.

    Hidden files other than the script's stay: locks, and files being written by other processes. Raises `InfraError`.
    """
    with disk_errors(f"the archive of the last attempt in {run_dir}"):
        for name in sorted(os.listdir(run_dir)):  # noqa: PTH208
            if name == UNFINISHED or (name not in STAYS and not name.startswith(".")):
                RunFolder(path=run_dir).move(name, f"{FOLDER}/{folder.name}/{name}")
