"""Temporary files and folders beside their targets, and those that killed processes left.

Their names have the host and the process id, so that those in use are recognized.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmbx.api import end_leftovers

_MARK = ".partial-"
_OTHER_HOST_S = 24 * 3600
"""Age in seconds from which the folder of a process on another host counts as left."""


def partial_path(target: Path) -> Path:
    """The temporary path of this process beside `target`."""
    return target.with_name(f".{_short(target)}{_MARK}{platform.node()}-{os.getpid()}")


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target`. Those of killed processes are deleted first."""
    for path in leftovers(target.parent, _short(target)):
        delete(path)
    folder = partial_path(target)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def leftovers(folder: Path, name: str = "*") -> list[Path]:
    """What killed processes left in `folder` beside targets called `name`."""
    return [path for path in folder.glob(f".{name}{_MARK}*") if not _in_use(path)]


def delete(path: Path) -> int:
    """Delete a leftover, end what still runs in it, and return the bytes freed."""
    end_leftovers(path)
    if not path.is_dir():
        size = path.lstat().st_size
        path.unlink(missing_ok=True)
        return size
    size = sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())
    shutil.rmtree(path, ignore_errors=True)
    return size


def _short(target: Path) -> str:
    """The end of a name, which leaves room for the mark."""
    return target.name[-100:]


def _in_use(path: Path) -> bool:
    """Whether the process that created `path` may still be using it."""
    host, _, pid = path.name.partition(_MARK)[2].rpartition("-")
    if host != platform.node():
        return time.time() - path.stat().st_mtime < _OTHER_HOST_S
    return pid.isdigit() and int(pid) != os.getpid() and Path(f"/proc/{pid}").exists()
