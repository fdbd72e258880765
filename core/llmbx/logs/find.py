"""Find training logs and detect their formats."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from ..config.install import RECORD
from ..errors import UsageError
from ..model import Value
from ..model.run_folder import NOT_LOGS
from ..run_files import RunFile, RunFolder
from .lines import LineReader
from .parser import LogFormat

SNIFF = 256 * 1024
"""Bytes from the start and the end of a log that are passed to `LogFormat.sniff`."""

# `log-<account>.<experiment>_<job>_<retry>.out`; a dot before a digit belongs to the experiment (llama3.1).
_ACCOUNT = re.compile(r"^[\w-]+\.(?=[A-Za-z])")
_RETRY = re.compile(r"(_\d{3,})_\d{1,2}$")


class LogFile(Value, frozen=True):
    """A log: its path, the experiment it is named after, and the llmbx run folder whose main log it is.

    `kind` is how a file of records is read; None for a log. `format` is the format that was chosen for it. `named` is
    whether the user gave its path, and not that of a folder. `copy` has what a pipe contained.
    """

    path: str
    experiment: str
    run_dir: str | None = None
    kind: str | None = None
    format: str | None = None
    named: bool = False
    copy: str | None = None

    @property
    def file(self) -> Path | RunFile:
        """The log to be read. What the user named may be a link; nothing in a run folder is followed."""
        if self.run_dir is None:
            return Path(self.copy or self.path)
        return RunFile(folder=Path(self.run_dir), file=os.path.relpath(self.path, self.run_dir))


def find_logs(paths: Sequence[Path]) -> list[LogFile]:
    """The training logs in `paths`: a file is used as it is, a folder is searched. Each log once, in order.

    In a run folder of llmbx (with a run.json) only the log next to the record is used; in other folders every `*.out`
    that does not match `NOT_LOGS`. A pipe is read to its end; `-` is standard input. Raises `UsageError` for a path
    that does not exist, and for a device.
    """
    found: dict[str, LogFile] = {}
    for path in (Path("/dev/stdin") if str(path) == "-" else path for path in paths):
        try:
            mode = path.stat().st_mode
        except OSError as error:
            why = "no such file or folder" if isinstance(error, FileNotFoundError) else error.strerror
            raise UsageError(f"{path}: {why}") from None
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise UsageError(f"{path}: expected a file, a pipe or a folder")
        for log in _search(path) if stat.S_ISDIR(mode) else [_named(path, stat.S_ISFIFO(mode))]:
            found.setdefault(os.path.realpath(log.path), log)
    return list(found.values())


def sniff(path: Path | RunFile, formats: Sequence[LogFormat]) -> LogFormat | None:
    """The format that recognizes the most lines of the log; None if no format recognizes any. Raises `OSError`."""
    text = ends(path)
    scores = [(format_.sniff(text), -place) for place, format_ in enumerate(formats)]
    best = max(scores, default=(0, 0))
    return formats[-best[1]] if best[0] > 0 else None


def ends(path: Path | RunFile) -> str:
    """The first and the last 256 KiB of a file as clean text. Raises `OSError`."""
    with path.open("rb") as file:
        head = file.read(SNIFF)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(SNIFF, size - SNIFF))
        tail = file.read()
    reader, gap = LineReader(), b"\n" if size > 2 * SNIFF else b""
    return "\n".join([*reader.feed(head + gap + tail), *reader.close()])


def experiment_name(path: Path) -> str:
    """The experiment that a log is named after: without `log-`, account, retry number and suffix, in one line."""
    name = path.name.removesuffix(".out").replace("\n", "\\n").replace("\r", "\\r")
    if name.startswith("log-"):
        name = _ACCOUNT.sub("", name.removeprefix("log-"))
    return _RETRY.sub(r"\1", name)


def _named(path: Path, pipe: bool) -> LogFile:
    own = RunFolder(path=path.parent).file(RECORD).exists() and path == _main_log(path.parent) and not path.is_symlink()
    folder, copy = (str(path.parent) if own else None), (_copy(path) if pipe else None)
    return LogFile(path=str(path), experiment=experiment_name(path), run_dir=folder, named=True, copy=copy)


def _copy(pipe: Path) -> str:
    """A file with what comes through the pipe, which can be read only once; it is removed when llmbx ends."""
    import atexit
    import shutil
    import tempfile

    handle, name = tempfile.mkstemp(prefix="llmbx-pipe-")
    atexit.register(Path(name).unlink, missing_ok=True)
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer is empty
    os.set_blocking(opened, True)
    with os.fdopen(opened, "rb") as source, os.fdopen(handle, "wb") as target:
        shutil.copyfileobj(source, target)
    return name


def _search(root: Path) -> Iterator[LogFile]:
    folders = [root]
    while folders:
        here = folders.pop()
        if os.path.lexists(here / RECORD):
            log = _main_log(here)
            yield LogFile(path=str(log), experiment=experiment_name(log), run_dir=str(here))
            continue
        entries = [entry for entry in _entries(here) if not _skipped(entry.name)]
        for entry in entries:
            if entry.name.endswith(".out") and entry.is_file():  # not a pipe
                yield LogFile(path=entry.path, experiment=experiment_name(Path(entry.path)))
        folders += [Path(entry.path) for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def _main_log(folder: Path) -> Path:
    files = RunFolder(path=folder)
    usual = files.file(f"log-{folder.resolve().name}.out")
    return usual.path if usual.exists() else next((file.path for file in files.glob("log-*.out")), usual.path)


def _skipped(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in NOT_LOGS)
