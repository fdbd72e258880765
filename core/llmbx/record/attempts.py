"""Earlier attempts of a run, stored with all their files in `attempts/N` of the run folder."""

from __future__ import annotations

from pathlib import Path

from ..config.install import RECORD
from ..files import disk_errors

FOLDER = "attempts"
STAYS = (RECORD, FOLDER, "tags.json")
"""Files that belong to the run and not to one attempt."""
UNFINISHED = ".exit.json"
"""Partially written exit file of the run's script."""


def stored_attempts(run_dir: Path) -> int:
    """Number of earlier attempts in the run folder."""
    try:
        return sum(entry.name.isdigit() for entry in (run_dir / FOLDER).iterdir())
    except OSError:
        return 0


def next_folder(run_dir: Path) -> Path:
    """Create and return the folder of the next attempt: the first unused number."""
    number = 0
    while True:
        folder = run_dir / FOLDER / str(number)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder


def archive(run_dir: Path, folder: Path) -> None:
    """Move all files of an attempt into its folder, so that they are not mistaken for those of the next attempt.

    Hidden files other than the script's stay: locks, and files being written by other processes. Raises `InfraError`.
    """
    with disk_errors(f"the archive of the last attempt in {run_dir}"):
        for entry in sorted(run_dir.iterdir()):
            if entry.name == UNFINISHED or (entry.name not in STAYS and not entry.name.startswith(".")):
                entry.rename(folder / entry.name)
