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
from ..model.measure import SourceKind
from ..model.run_folder import NOT_LOGS
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
    whether the user gave its path, and not that of a folder.
    """

    path: str
    experiment: str
    run_dir: str | None = None
    kind: SourceKind | None = None
    format: str | None = None
    named: bool = False


def find_logs(paths: Sequence[Path]) -> list[LogFile]:
    """The training logs in `paths`: a file is used as it is, a folder is searched. Each log once, in order.

    In a run folder of llmbx (with a run.json) only the log next to the record is used; in other folders every `*.out`
    that does not match `NOT_LOGS`. Raises `UsageError` for a path that does not exist, and for a pipe or device.
    """
    found: dict[str, LogFile] = {}
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            why = "no such file or folder" if isinstance(error, FileNotFoundError) else error.strerror
            raise UsageError(f"{path}: {why}") from None
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise UsageError(f"{path}: expected a regular file or a folder; save what it prints in a file first")
        for log in _search(path) if path.is_dir() else [_named(path)]:
            found.setdefault(os.path.realpath(log.path), log)
    return list(found.values())


def sniff(path: Path, formats: Sequence[LogFormat]) -> LogFormat | None:
    """The format that recognizes the most lines of the log; None if no format recognizes any. Raises `OSError`."""
    text = ends(path)
    scores = [(format_.sniff(text), -place) for place, format_ in enumerate(formats)]
    best = max(scores, default=(0, 0))
    return formats[-best[1]] if best[0] > 0 else None


def ends(path: Path) -> str:
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


def _named(path: Path) -> LogFile:
    own = (path.parent / RECORD).is_file() and path == _main_log(path.parent)
    folder = str(path.parent) if own else None
    return LogFile(path=str(path), experiment=experiment_name(path), run_dir=folder, named=True)


def _search(root: Path) -> Iterator[LogFile]:
    for folder, below, files in os.walk(root):
        here = Path(folder)
        if RECORD in files:
            below.clear()
            log = _main_log(here)
            yield LogFile(path=str(log), experiment=experiment_name(log), run_dir=folder)
            continue
        below[:] = sorted(name for name in below if not _skipped(name))
        for name in sorted(files):
            if name.endswith(".out") and not _skipped(name):
                yield LogFile(path=str(here / name), experiment=experiment_name(here / name))


def _main_log(folder: Path) -> Path:
    usual = folder / f"log-{folder.resolve().name}.out"
    return usual if usual.is_file() else next(iter(sorted(folder.glob("log-*.out"))), usual)


def _skipped(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in NOT_LOGS)
