"""Find training logs: what the user names, and what is in a folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from llmbx.api import RunFile, RunFolder, UsageError, Value

RECORD = "run.json"
"""The file by which a folder is that of a run of llmbx."""

NOT_LOGS = (
    "*nccltrace*",
    "*nsys_analysis*",
    "sbatch_*",
    "*prepare_squad_dataset_exp*",
    "*import_ckpt_exp*",
)
"""Patterns of files among the recipes' logs that are not logs."""

# `log-<account>.<experiment>_<job>_<retry>.out`; a dot before a digit belongs to the experiment
# (llama3.1).
_ACCOUNT = re.compile(r"^[\w-]+\.(?=[A-Za-z])")
_RETRY = re.compile(r"(_\d{3,})_\d{1,2}$")


class LogFile(Value, frozen=True):
    """A log: its path, the experiment it is named after, and the run folder whose main log it is.

    `kind` is how a file of records is read; None for a log. `format` is the format that was chosen
    for it. `named` is whether the user gave its path, and not that of a folder. `copy` has what a
    pipe contained.
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
        """The log to be read.

        What the user named may be a link; nothing in a run folder is followed.
        """
        if self.run_dir is None:
            return Path(self.copy or self.path)
        return RunFile(folder=Path(self.run_dir), file=os.path.relpath(self.path, self.run_dir))


def find_logs(paths: Sequence[Path]) -> list[LogFile]:
    """The training logs in `paths`: a file is used as it is, a folder is searched.

    Each log once, in order. In a run folder of llmbx (with a run.json) only the log next to the
    record is used; in other folders every `*.out` that does not match `NOT_LOGS`. A pipe is read to
    its end; `-` is standard input. Raises `UsageError` for a path that does not exist, and for a
    device.
    """
    logs: dict[str, LogFile] = {}
    for path in paths:
        for log in _at(Path("/dev/stdin") if str(path) == "-" else path):
            logs.setdefault(os.path.realpath(log.path), log)
    return list(logs.values())


def experiment_name(path: Path) -> str:
    """The experiment that a log is named after, in one line.

    Without `log-`, account, retry number and suffix.
    """
    name = path.name.removesuffix(".out").replace("\n", "\\n").replace("\r", "\\r")
    if name.startswith("log-"):
        name = _ACCOUNT.sub("", name.removeprefix("log-"))
    return _RETRY.sub(r"\1", name)


def _at(path: Path) -> Iterator[LogFile]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "no such file or folder" if missing else error.strerror
        raise UsageError(f"{path}: {why}") from None
    if stat.S_ISDIR(mode):
        yield from _search(path)
    elif stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        yield _named(path, stat.S_ISFIFO(mode))
    else:
        raise UsageError(f"{path}: expected a file, a pipe or a folder")


def _named(path: Path, pipe: bool) -> LogFile:
    in_run = RunFolder(path=path.parent).file(RECORD).exists()
    own = in_run and path == _main_log(path.parent) and not path.is_symlink()
    return LogFile(
        path=str(path),
        experiment=experiment_name(path),
        run_dir=str(path.parent) if own else None,
        named=True,
        copy=_copy(path) if pipe else None,
    )


def _copy(pipe: Path) -> str:
    """A file with what comes through the pipe, which can be read only once.

    It is removed when llmbx ends.
    """
    import atexit
    import shutil
    import tempfile

    handle, name = tempfile.mkstemp(prefix="llmbx-pipe-")
    atexit.register(Path(name).unlink, missing_ok=True)
    # A pipe without a writer is empty.
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(opened, True)
    with os.fdopen(opened, "rb") as source, os.fdopen(handle, "wb") as target:
        shutil.copyfileobj(source, target)
    return name


def _search(root: Path) -> Iterator[LogFile]:
    folders = [root]
    while folders:
        folder = folders.pop()
        if os.path.lexists(folder / RECORD):
            log = _main_log(folder)
            yield LogFile(path=str(log), experiment=experiment_name(log), run_dir=str(folder))
            continue
        entries = [entry for entry in _entries(folder) if not _skipped(entry.name)]
        for entry in entries:
            if entry.name.endswith(".out") and entry.is_file():  # not a pipe
                yield LogFile(path=entry.path, experiment=experiment_name(Path(entry.path)))
        inner = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        folders += reversed(inner)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _main_log(folder: Path) -> Path:
    files = RunFolder(path=folder)
    usual = files.file(f"log-{folder.resolve().name}.out")
    if usual.exists():
        return usual.path
    return next((file.path for file in files.glob("log-*.out")), usual.path)


def _skipped(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in NOT_LOGS)
