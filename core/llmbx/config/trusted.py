"""Read files that llmbx obeys without a request: only those that no other user can have written.

Such a file can start programs (`setup`, `env`, plugins). It must belong to the user or root, and neither it nor its
folder may be writable by all users, or by a group other than the user's own. Of a link all of this applies to its
target, and its own owner and folder count as well. The group of a user is a group of the same name without other
members (a user without a name: the group of the same number).

What the user can fix is an error. What only others can fix is ignored with a note: a stranger's file in a shared
folder must neither be obeyed nor stop the commands of all others.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from ..errors import UsageError

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Found(NamedTuple):
    """What is at a path: the `content` of a file that may be obeyed, or a `note` why one is ignored."""

    content: bytes | None = None
    note: str | None = None


class _Fault(Exception):
    """Why a file must not be obeyed, and what helps; `fixable` if the user can do it."""

    def __init__(self, problem: str, helps: str, fixable: bool) -> None:
        super().__init__(problem)
        self.helps, self.fixable = helps, fixable


def read_trusted(path: Path, most: int) -> Found:
    """Read the first `most` bytes of the file at `path` if it may be obeyed. Nothing is found at a folder or pipe.

    Raises `UsageError` for a file that may not be obeyed, and for one that cannot be read, if it is the user's own.
    """
    try:
        return Found(content=_read(path, most, linked=False))
    except _Fault as fault:
        if fault.fixable:
            raise UsageError(f"{path}: {fault}: {fault.helps}") from None
        return Found(note=f"{path} is ignored: {fault}: {fault.helps}")


def _read(path: Path, most: int, linked: bool) -> bytes | None:
    """The content; None if there is no file. All that is checked is what is open, so nothing can be exchanged."""
    try:
        folder = os.open(path.parent, _FOLDER)
    except OSError:
        return None
    try:
        try:
            status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        if stat.S_ISLNK(status.st_mode) and not linked:
            _check(path, status, os.fstat(folder))
            return _read(Path(os.path.realpath(path)), most, linked=True)
        if not stat.S_ISREG(status.st_mode):
            return None
        return _open(path, folder, most)
    finally:
        os.close(folder)


def _open(path: Path, folder: int, most: int) -> bytes | None:
    try:
        file = os.open(path.name, _FILE, dir_fd=folder)
    except OSError as error:
        status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        _check(path, status, os.fstat(folder))
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        _check(path, status, os.fstat(folder))
        return stream.read(most)


def _check(path: Path, status: os.stat_result, folder: os.stat_result) -> None:
    """Raise `_Fault` if another user can have written this file or link, or can exchange it."""
    me = os.geteuid()
    own = folder.st_uid in (me, 0) and status.st_uid == me
    if status.st_uid not in (me, 0):
        what = f"it belongs to {_user_name(status.st_uid)} (mode {_mode(status)})"
        raise _Fault(what, f"chown {_user_name(me)} {path}", fixable=False)
    if (who := _writers(folder)) is not None:
        fixable = own and folder.st_uid == me and not folder.st_mode & stat.S_ISVTX  # such as /tmp
        what = f"its folder is writable by {who[0]} (mode {_mode(folder)})"
        raise _Fault(what, f"chmod {who[1]} {path.parent}", fixable)
    if not stat.S_ISLNK(status.st_mode) and (who := _writers(status)) is not None:
        raise _Fault(f"it is writable by {who[0]} (mode {_mode(status)})", f"chmod {who[1]} {path}", fixable=own)


def _writers(status: os.stat_result) -> tuple[str, str] | None:
    """Who besides its owner can write, and the mode that forbids it; None if no other user can."""
    group = bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)
    if status.st_mode & stat.S_IWOTH:
        return "all users", "go-w" if group else "o-w"
    return (f"group {_group_name(status.st_gid)}", "g-w") if group else None


def _is_own_group(gid: int) -> bool:
    import grp

    me = os.geteuid()
    if gid != os.getegid():
        return False
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return gid == me
    return group.gr_name == _user_name(me) and set(group.gr_mem) <= {group.gr_name}


def _user_name(uid: int) -> str:
    from ..run_files.door import user_name  # with the records, which `--help` does not need

    return user_name(uid)


def _group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _mode(status: os.stat_result) -> str:
    return f"{stat.S_IMODE(status.st_mode):04o}"
