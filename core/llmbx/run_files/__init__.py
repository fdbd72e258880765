"""The one door to the files of run folders and sweep folders, which another user may have filled.

A stranger can leave anything there: a link to a file that only the reader may read, a pipe that blocks whoever opens
it, a device that never ends. `door` opens nothing of this kind. What a user names on the command line (`parse LOG`) is
not opened here: it may be a link or a pipe.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from ..errors import InfraError
from ..files import disk_errors
from ..model.base import Value
from . import door
from .door import FOLDER_MODE as FOLDER_MODE
from .door import LARGEST_RECORD as LARGEST_RECORD
from .door import user_name as user_name

LONGEST_LINE = 1 << 16
"""Maximum length in bytes of a line of a record that has one value per line."""


LEASE_S = 60.0
"""Seconds without a sign of life after which the lock of a process on another machine is taken over."""


class RunFile(Value, frozen=True):
    """A file of a run folder: `file` is its name there, with `/` between its parts.

    It has those members of `Path` that readers need which also read files that a user names.
    """

    folder: Path
    """The run folder."""
    file: str
    """The name of the file in it."""

    def __str__(self) -> str:
        return str(self.path)

    @property
    def path(self) -> Path:
        """Where it is, for messages; a reader that opens this path follows links."""
        return self.folder / self.file

    @property
    def name(self) -> str:
        """The last part of its name."""
        return self.file.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The end of its name, from its last dot on."""
        return self.path.suffix

    @property
    def stem(self) -> str:
        """Its name without its end."""
        return self.path.stem

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:
        """Open the file to read bytes, piece by piece. Raises `OSError` that says why it must not be read."""
        try:
            *folders, last = door.parts(self.file)
            with door.entered(self.folder, folders) as (where, owner):
                return os.fdopen(door.checked(where, last, owner), mode)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self)) from None

    def read(self) -> bytes:
        """The content of a record. Raises `OSError`, also for a file that is too large to be one."""
        try:
            *folders, last = door.parts(self.file)
            with door.entered(self.folder, folders) as (where, owner):
                return door.record(where, last, owner)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self)) from None

    def lines(self) -> Iterator[bytes]:
        """The lines of the file without their ends. One longer than `LONGEST_LINE` is cut. Raises `OSError`."""
        with self.open() as file:
            while line := file.readline(LONGEST_LINE + 1):
                rest = line
                while not rest.endswith(b"\n") and (rest := file.readline(1 << 20)):
                    pass
                yield line[:LONGEST_LINE].rstrip(b"\r\n")

    def status(self) -> os.stat_result | None:
        """What the file system says about the name itself, also of a link; None if there is nothing."""
        try:
            *folders, last = door.parts(self.file)
            with door.entered(self.folder, folders) as (where, _):
                return os.stat(last, dir_fd=where, follow_symlinks=False)
        except OSError:
            return None

    def exists(self) -> bool:
        """Whether something has the name; `open` may refuse it."""
        return self.status() is not None

    def is_file(self) -> bool:
        """Whether it is a regular file; a link is not."""
        status = self.status()
        return status is not None and stat.S_ISREG(status.st_mode)


def run_file(path: Path | RunFile) -> RunFile:
    """A file of a run folder by its path, if it lies in the folder itself."""
    return path if isinstance(path, RunFile) else RunFile(folder=path.parent, file=path.name)


class RunFolder(Value, frozen=True):
    """A run folder or sweep folder, whose files are read, and written by its owner, through this door."""

    path: Path
    """Where it is."""

    @property
    def owner_id(self) -> int | None:
        """The number of the user to whom the folder belongs; None if it does not exist."""
        try:
            return os.stat(self.path).st_uid  # noqa: PTH116 (faster)
        except OSError:
            return None

    @property
    def own(self) -> bool:
        """Whether the folder belongs to this user, who alone changes what is in it; root is another user."""
        return self.owner_id == os.geteuid()

    @property
    def owner(self) -> str:
        """The name of the user to whom the folder belongs; "?" if it does not exist."""
        return "?" if (owner := self.owner_id) is None else user_name(owner)

    def file(self, name: str) -> RunFile:
        """The file of this name, which need not exist."""
        return RunFile(folder=self.path, file=name)

    def read(self, name: str) -> bytes:
        """The content of a record. Raises `OSError`, also for a file that is too large to be one."""
        return self.file(name).read()

    def read_several(self, *names: str) -> tuple[int, list[bytes | OSError]]:
        """The number of the folder's owner, and for each record its content or why it cannot be read. Raises `OSError`.

        The folder is opened once: a listing of thousands of runs reads several records of each.
        """
        contents: list[bytes | OSError] = []
        with door.entered(self.path, ()) as (where, owner):
            for name in names:
                try:
                    contents.append(door.record(where, name, owner))
                except OSError as error:
                    contents.append(error)
        return owner, contents

    def glob(self, pattern: str) -> list[RunFile]:
        """The files that match, sorted by name, without links: `**` stands for any number of folders.

        Nothing is found in a folder that cannot be read, nor beyond the limits of a search (`search`).
        """
        return [self.file(name) for name in door.matching(self.path, pattern)]

    def all_files(self) -> Iterator[RunFile]:
        """Every file below the folder, without links; `RunFile.open` refuses a pipe."""
        return (self.file(name) for name in door.below(self.path))

    def folders(self, name: str = "") -> list[str]:
        """The names of the folders in the folder `name`, sorted; empty if there is no such folder."""
        return sorted(entry for entry, is_folder in door.entries(self.path, name) if is_folder)

    def last_written(self, pattern: str) -> float | None:
        """When the newest of the files that match was written (epoch seconds); None if there is none."""
        return max((status.st_mtime for file in self.glob(pattern) if (status := file.status())), default=None)

    def write(self, name: str, content: bytes | str, mode: int = 0o666, *, durable: bool = True) -> None:
        """Write a file completely or not at all, in place of whatever has its name. Raises `InfraError`.

        Its permissions are `mode` without those that the umask removes, and only its owner can write it. With
        `durable=False` it may be lost in a power failure, but writing takes a fraction of the time.
        """
        with disk_errors(str(self.path / name)), door.written(self.path, name, content, mode, durable) as written:
            where, temporary, last = written
            os.replace(temporary, last, src_dir_fd=where, dst_dir_fd=where)

    def write_once(self, name: str, content: bytes | str, mode: int = 0o666) -> bool:
        """Write a file completely unless its name is taken; False if it is. Raises `InfraError`."""
        with disk_errors(str(self.path / name)), door.written(self.path, name, content, mode, True) as written:
            where, temporary, last = written
            try:
                os.link(temporary, last, src_dir_fd=where, dst_dir_fd=where, follow_symlinks=False)
            except FileExistsError:
                return False
            return True

    def make_folder(self, name: str) -> bool:
        """Make a folder and those above it; False if it exists. Raises `OSError`."""
        *folders, last = door.parts(name)
        with door.entered(self.path, folders, create=True) as (where, _), contextlib.suppress(FileExistsError):
            os.mkdir(last, FOLDER_MODE, dir_fd=where)
            return True
        return False

    @contextlib.contextmanager
    def driven(self) -> Iterator[None]:
        """Hold the folder's lock: no two processes carry out its plan. Raises `InfraError` that names the owner.

        The lock of a process that was killed on this machine is taken over at once.
        """
        from filelock import SoftFileLease, Timeout

        path = self.path / ".driver"
        lease = SoftFileLease(str(path), lease_duration=LEASE_S)
        with disk_errors(str(path)):
            try:
                lease.acquire(timeout=0)
            except Timeout:
                owner = lease.owner
                who = f"process {owner.pid} on {str(owner.hostname).partition('?')[0]}" if owner else "another process"
                raise InfraError(f"{self.path.name} is already being run by {who}; stop it first") from None
        try:
            yield
        finally:
            lease.release()

    def move(self, name: str, new: str) -> None:
        """Give a file, link or folder another name, in place of whatever has it. Raises `OSError`."""
        *folders, last = door.parts(name)
        *new_folders, new_last = door.parts(new)
        with door.entered(self.path, folders) as (where, _), door.entered(self.path, new_folders) as (to, _):
            os.replace(last, new_last, src_dir_fd=where, dst_dir_fd=to)

    def append(self, name: str) -> BinaryIO:
        """Open a file to write to its end; it is made if it does not exist. Raises `OSError` for a link or a pipe."""
        *folders, last = door.parts(name)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with door.entered(self.path, folders) as (where, _):
            return os.fdopen(os.open(last, flags, 0o644, dir_fd=where), "ab")

    def remove(self, name: str) -> None:
        """Remove a file or link, if it exists. Raises `OSError`."""
        *folders, last = door.parts(name)
        with contextlib.suppress(FileNotFoundError), door.entered(self.path, folders) as (where, _):
            os.unlink(last, dir_fd=where)
