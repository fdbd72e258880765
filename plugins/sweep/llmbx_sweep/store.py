"""A sweep's folder under the install: what was planned. What became of it is in the folders of its runs."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

from llmbx.config.install import Install
from llmbx.errors import InfraError, LlmbxError, UsageError, did_you_mean
from llmbx.files import disk_errors, write_atomic
from llmbx.model import Value
from llmbx.record.folder import decode_any, pretty
from llmbx.toml_file import NOT_JSON

from .cells import Cell

FOLDER = "sweeps"
FILE = "sweep.json"
MAX_JOBS = 100
"""How many jobs are in the queue at a time where nothing else is asked."""

LEASE_S = 60.0
"""A driver on another machine that shows no sign of life for this long is taken for dead."""


class Sweep(Value, frozen=True):
    """`sweep.json`: the plan of a sweep with every cell as it was resolved. `created` in epoch seconds."""

    sweep_id: str
    created: float
    llmbx_version: str
    command: tuple[str, ...]
    cells: tuple[Cell, ...]
    max_jobs: int
    schema_version: int = 1

    @property
    def runs(self) -> int:
        """How many runs it is."""
        return sum(cell.repeats for cell in self.cells)


def create(install: Install, name: str, command: tuple[str, ...], cells: tuple[Cell, ...], max_jobs: int) -> Sweep:
    """Make the folder of a new sweep, which nobody else has, and write its plan."""
    from llmbx import __version__

    install.ensure()
    stamp, slug = int(time.time()), re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") or "sweep"
    base = install.path / FOLDER
    with disk_errors(str(base)):
        base.mkdir(exist_ok=True)
        while True:
            sweep_id = f"{slug}_{stamp}"
            with contextlib.suppress(FileExistsError):
                (base / sweep_id).mkdir()
                break
            stamp += 1
    sweep = Sweep(
        sweep_id=sweep_id, created=time.time(), llmbx_version=__version__, command=command, cells=cells,
        max_jobs=max_jobs,
    )  # fmt: skip
    write_atomic(folder(install, sweep) / FILE, pretty(sweep))
    return sweep


def folder(install: Install, sweep: Sweep) -> Path:
    """Where the sweep's plan lies."""
    return install.path / FOLDER / sweep.sweep_id


def find(install: Install, text: str) -> Sweep:
    """The sweep with this id or a unique prefix of it; "last" is the newest. Raises `UsageError`."""
    known = sorted((path.parent for path in (install.path / FOLDER).glob(f"*/{FILE}")), key=_age, reverse=True)
    if not known:
        raise UsageError(f"{install.root} has no sweep to continue")
    if text == "last":
        return read(known[0] / FILE)
    names = [path.name for path in known]
    found = [text] if text in names else [name for name in names if name.startswith(text)]
    if not found:
        raise UsageError(f"no sweep '{text}'{did_you_mean(text, names[:50])}")
    if len(found) > 1:
        raise UsageError(f"'{text}' fits {len(found)} sweeps; be more exact: {', '.join(found[:3])}")
    return read(install.path / FOLDER / found[0] / FILE)


def _age(path: Path) -> tuple[int, str]:
    stamp = path.name.rpartition("_")[2]
    return (int(stamp) if stamp.isdigit() else 0, path.name)


def read(path: Path) -> Sweep:
    """The sweep whose plan is the file `path`. Raises `UsageError` when it cannot be read."""
    try:
        return decode_any(path.read_bytes(), Sweep)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except NOT_JSON as error:
        raise LlmbxError(f"{path}: not a sweep that this llmbx can read: {error}") from None


@contextlib.contextmanager
def driving(install: Install, sweep: Sweep) -> Iterator[None]:
    """Drive the sweep alone: two llmbx that did would run cells twice. Raises `InfraError` that names the other.

    A driver that was killed on this machine is replaced at once.
    """
    from filelock import SoftFileLease, Timeout

    path = folder(install, sweep) / ".driver"
    lease = SoftFileLease(str(path), lease_duration=LEASE_S)
    with disk_errors(str(path)):
        try:
            lease.acquire(timeout=0)
        except Timeout:
            owner = lease.owner
            who = f"process {owner.pid} on {str(owner.hostname).partition('?')[0]}" if owner else "another process"
            raise InfraError(f"{sweep.sweep_id} is being driven by {who}; end that one first") from None
    try:
        yield
    finally:
        lease.release()
