"""Find the files that contain NCCL log lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from llmbx.api import RunFile, RunFolder, UsageError

from .trace import FOLDER

LOGS = ("*.out", "*.log", "*.txt", "*nccl*")
SKIPPED = (".*", "sbatch_*", "README", "*.json", "*.jsonl", "*.sh", "*.nsys-rep", "*.sqlite")
SKIPPED_FOLDERS = ("attempts", ".*")


def find_logs(paths: Sequence[Path]) -> list[Path | RunFile]:
    """Return the logs in `paths`, each once and in order; folders are searched, without following links in them.

    In a run folder with one trace file per rank, the run's log is included, since it contains the step lines. Earlier
    attempts are skipped. Raises `UsageError` if a path does not exist or a folder contains no log.
    """
    by_path: dict[str, Path | RunFile] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        logs: Sequence[Path | RunFile] = _search(path) if path.is_dir() else [path]
        if not logs:
            raise UsageError(f"{path}: no log in this folder (searched for {', '.join(LOGS)}, also with .gz)")
        for log in logs:
            by_path.setdefault(os.path.realpath(str(log)), log)
    return list(by_path.values())


def _search(root: Path) -> list[RunFile]:
    return sorted(_below(root), key=lambda file: file.path.parts)


def _below(root: Path) -> Iterator[RunFile]:
    for file in RunFolder(path=root).all_files():
        *folders, name = file.file.split("/")
        if any(_matches(folder, SKIPPED_FOLDERS) for folder in folders):
            continue
        plain, inside = name.removesuffix(".gz"), (folders or [root.name])[-1] == FOLDER
        if not _matches(plain, SKIPPED) and (inside or _matches(plain.lower(), LOGS)):
            yield file


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
