"""The folder of a sweep. It holds the plan; the results are in the folders of the runs."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from llmbx.api import NOT_JSON, LlmbxError, RunFolder, UsageError, did_you_mean, disk_errors
from llmbx.api.verbs import Install, Recorded, current_user

from .cells import Cell

FOLDER = "sweeps"
FILE = "sweep.json"
MAX_JOBS = 100
"""Default of --max-jobs: most jobs in the queue at a time."""


class Sweep(Recorded, frozen=True):
    """The content of `sweep.json`: the plan of a sweep with its resolved cells. `created` is in epoch seconds."""

    sweep_id: str
    created: float
    llmbx_version: str
    command: tuple[str, ...]
    cells: tuple[Cell, ...]
    max_jobs: int
    user: str | None = None
    schema_version: int = 1

    @property
    def runs(self) -> int:
        """Number of runs: the sum of the repeats of all cells."""
        return sum(cell.repeats for cell in self.cells)


def create(install: Install, name: str, command: tuple[str, ...], cells: tuple[Cell, ...], max_jobs: int) -> Sweep:
    """Create a unique folder for a new sweep and write its plan."""
    from llmbx.api import __version__

    install.ensure()
    stamp, slug = int(time.time()), re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") or "sweep"
    base = home(install)
    with disk_errors(str(base)):
        base.mkdir(parents=True, exist_ok=True)
        while True:
            sweep_id = f"{slug}_{stamp}"
            with contextlib.suppress(FileExistsError):
                (base / sweep_id).mkdir(0o755)  # only its owner changes a sweep, also in a shared install
                break
            stamp += 1
    sweep = Sweep(
        sweep_id=sweep_id, created=time.time(), llmbx_version=__version__, command=command, cells=cells,
        max_jobs=max_jobs, user=current_user(),
    )  # fmt: skip
    RunFolder(path=folder(install, sweep)).write(FILE, sweep.encoded())
    return sweep


def home(install: Install) -> Path:
    """The folder of all sweeps: in the install, or with `--output` or in a read-only install beside the runs."""
    elsewhere = install.workload_root
    if elsewhere and (install.workload_origin == "--output" or not os.access(install.path, os.W_OK)):
        return Path(elsewhere) / FOLDER
    return install.path / FOLDER


def folder(install: Install, sweep: Sweep) -> Path:
    """The folder of the sweep."""
    return home(install) / sweep.sweep_id


def find(install: Install, text: str) -> Sweep:
    """The sweep with this id or a unique prefix of it; "last" is the newest of this user.

    Raises `UsageError` if there is none.
    """
    place = home(install)
    newest_first = sorted(
        (path for path in place.glob("*") if RunFolder(path=path).file(FILE).exists()), key=_age, reverse=True
    )
    if not newest_first:
        raise UsageError(f"no sweep in {place}")
    if text == "last":
        sweeps = (read(path) for path in newest_first if RunFolder(path=path).owner_id in (os.geteuid(), 0))
        newest = next((sweep for sweep in sweeps if sweep.user == current_user()), None)
        if newest is None:
            raise UsageError(f"no sweep in {place} is yours: name one ({newest_first[0].name})")
        return newest
    names = [path.name for path in newest_first]
    matching = [text] if text in names else [name for name in names if name.startswith(text)]
    if not matching:
        raise UsageError(f"no sweep '{text}'{did_you_mean(text, names[:50])}")
    if len(matching) > 1:
        raise UsageError(f"'{text}' matches {len(matching)} sweeps: {', '.join(matching[:3])}")
    return read(place / matching[0])


def _age(path: Path) -> tuple[int, str]:
    stamp = path.name.rpartition("_")[2]
    return (int(stamp) if stamp.isdigit() else 0, path.name)


def read(path: Path) -> Sweep:
    """Read the plan of the sweep in the folder `path`.

    Raises `UsageError` if the file cannot be read, `LlmbxError` if it is not a valid plan.
    """
    try:
        return Sweep.decoded(RunFolder(path=path).read(FILE))
    except OSError as error:
        raise UsageError(f"{path / FILE}: cannot read the file: {error.strerror}") from None
    except NOT_JSON as error:
        raise LlmbxError(f"{path / FILE}: not a valid sweep file for this version of llmbx: {error}") from None
