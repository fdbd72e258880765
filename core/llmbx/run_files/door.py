"""Open the folders and files of a run without following a link, and look at each before it is read.

Each is opened relative to the folder above it, and only then looked at, by its descriptor: what is looked at cannot be
exchanged any more. Links above a run folder are followed if they belong to the user or root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

LARGEST_RECORD = 16 << 20
"""Maximum size in bytes of a record (run.json, result.json …); larger files are rejected without being read."""

LARGEST_HOLE = 4 << 30
"""Maximum number of bytes of a file that take no space on the disk: reading petabytes of zeros would never end."""

MOST_LINKS = 40
"""Maximum number of links above a run folder, as in the kernel."""

FOLDER_MODE = 0o755
"""Permissions of the folders of a run: also in an install that a group shares, only the owner of a run changes it."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _FOLDER | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_KINDS = {
    stat.S_IFLNK: "a link, which is not followed inside a run folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def parts(name: str) -> list[str]:
    """The folders and the last part of the name of a file in a run folder. Raises `OSError` for an invalid name."""
    if "\0" in name:
        raise OSError(errno.EINVAL, "its name has a null character")
    return [part for part in name.split("/") if part not in ("", ".")] or [""]


@contextlib.contextmanager
def entered(root: Path, folders: Sequence[str], create: bool = False) -> Iterator[tuple[int, int]]:
    """A descriptor of the folder below `root`, and the user to whom `root` belongs. Raises `OSError`.

    With `create` missing folders are made.
    """
    if create:
        Path(root).mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    where = _opened_folder(root)
    try:
        owner = os.fstat(where).st_uid
        for name in folders:
            if name == "..":
                raise OSError(errno.EINVAL, "its name leads out of the folder")
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, FOLDER_MODE, dir_fd=where)
            above, where = where, _next(where, name)
            os.close(above)
        yield where, owner
    finally:
        os.close(where)


def _next(where: int, name: str) -> int:
    try:
        return os.open(name, _BELOW, dir_fd=where)
    except NotADirectoryError:
        mode = os.stat(name, dir_fd=where, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, f"{name} is {_KINDS[stat.S_IFLNK]}") from None
        raise


def checked(where: int, name: str, owner: int) -> int:
    """A descriptor of a file that may be read: a regular one, of the folder's owner, this user or root.

    Another user's file has this name only if it is a hard link, or in a folder that a group may write.
    """
    try:
        fd = os.open(name, _FILE, dir_fd=where)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link, and a socket
            raise
        mode = os.stat(name, dir_fd=where, follow_symlinks=False).st_mode
        raise OSError(error.errno, f"it is {_KINDS.get(stat.S_IFMT(mode), 'not a regular file')}") from None
    try:
        _check(os.fstat(fd), fd, owner)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(status: os.stat_result, fd: int, owner: int) -> None:
    """Raise `OSError` if an open file must not be read."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'not a regular file')}")
    if status.st_uid not in (owner, os.geteuid(), 0):
        raise PermissionError(errno.EPERM, f"it belongs to user {user_name(status.st_uid)}, not to the folder's owner")
    if status.st_uid != owner and status.st_nlink > 1:
        # Where the system does not restrict hard links, a stranger can give a private file of the reader a name here.
        raise PermissionError(errno.EPERM, f"it is a hard link to a file of user {user_name(status.st_uid)}")
    missing = status.st_size - status.st_blocks * 512
    if missing > LARGEST_HOLE and _first_hole(fd) < status.st_size:  # a compressed file has none
        raise OSError(errno.EFBIG, f"{missing >> 30} GiB of it are a hole, without data on the disk")


def _first_hole(fd: int) -> int:
    hole = os.lseek(fd, 0, os.SEEK_HOLE)
    os.lseek(fd, 0, os.SEEK_SET)
    return hole


def record(where: int, name: str, owner: int) -> bytes:
    """The content of a record. Raises `OSError`, also for a file that is too large to be one."""
    fd = checked(where, name, owner)
    try:
        size, content = os.fstat(fd).st_size, b""
        if size <= LARGEST_RECORD:
            while chunk := os.read(fd, max(1, min(size, LARGEST_RECORD) - len(content)) + 1):
                content += chunk  # one read, unless the file grows
                if len(content) > LARGEST_RECORD:
                    break
    finally:
        os.close(fd)
    if max(size, len(content)) > LARGEST_RECORD:
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST_RECORD >> 20} MiB")
    return content


def _opened_folder(path: Path) -> int:
    """A descriptor of a run folder. Links on the way are followed if they belong to this user or root."""
    place = os.path.abspath(path)  # noqa: PTH100 (`absolute` keeps `..`)
    where = os.open(place, _FOLDER)
    with contextlib.suppress(OSError):  # without /proc
        if os.readlink(f"/proc/self/fd/{where}") == place:  # noqa: PTH115
            return where
    os.close(where)
    return _way(place)


def _way(place: str) -> int:
    """Open a folder one part after the other, so that every link on the way can be checked."""
    parts, links = place.split("/")[::-1], 0
    where = os.open("/", _STEP)
    try:
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            below = os.open(part, _STEP, dir_fd=where)
            status = os.fstat(below)
            if not stat.S_ISLNK(status.st_mode):
                os.close(where)
                where = below
                continue
            target = os.readlink("", dir_fd=below)
            os.close(below)
            links += 1
            _check_link(part, status.st_uid, links)
            parts += target.split("/")[::-1]
            if target.startswith("/"):
                os.close(where)
                where = os.open("/", _STEP)
        return os.open(".", _FOLDER, dir_fd=where)
    finally:
        os.close(where)


def _check_link(name: str, owner: int, links: int) -> None:
    if links > MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if owner not in (os.geteuid(), 0):
        raise PermissionError(errno.EPERM, f"{name} above it is a link of user {user_name(owner)}")


@contextlib.contextmanager
def written(root: Path, name: str, content: bytes | str, mode: int, durable: bool) -> Iterator[tuple[int, str, str]]:
    """The open folder of a file, its content there under a temporary name, and its last name."""
    *folders, last = parts(name)
    with entered(root, folders, create=True) as (where, _):
        temporary = f".{last}.{os.urandom(6).hex()}"
        fd = os.open(temporary, _NEW, mode & ~(stat.S_IWGRP | stat.S_IWOTH), dir_fd=where)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                if durable:
                    os.fsync(fd)
            yield where, temporary, last
        finally:
            with contextlib.suppress(FileNotFoundError):  # it has its name
                os.unlink(temporary, dir_fd=where)


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


def user_name(uid: int) -> str:
    """The name of a user; the number if it has no name (in some containers)."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
