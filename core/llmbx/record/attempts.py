"""Earlier attempts of a run, kept in `attempts/N` of its folder with all that they left."""

from __future__ import annotations

from pathlib import Path

from ..config.install import RECORD
from ..files import disk_errors

FOLDER = "attempts"
STAYS = (RECORD, FOLDER, "tags.json")
"""What belongs to the run and not to one attempt of it."""
UNFINISHED = ".exit.json"
"""What the run's script was writing about its end."""


def kept(run_dir: Path) -> int:
    """How many earlier attempts the run's folder holds."""
    try:
        return sum(entry.name.isdigit() for entry in (run_dir / FOLDER).iterdir())
    except OSError:
        return 0


def next_folder(run_dir: Path) -> Path:
    """A new folder for what is to be set aside: the first number that is free."""
    number = 0
    while True:
        folder = run_dir / FOLDER / str(number)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder


def set_aside(run_dir: Path, folder: Path) -> None:
    """Move all that an attempt left into its folder, so that nothing of it is taken for the next one's.

    Hidden files but the script's own stay: locks, and what other processes write at this moment. Raises `InfraError`.
    """
    with disk_errors(f"what the last attempt left in {run_dir}"):
        for entry in sorted(run_dir.iterdir()):
            if entry.name == UNFINISHED or (entry.name not in STAYS and not entry.name.startswith(".")):
                entry.rename(folder / entry.name)
