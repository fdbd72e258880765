"""The whole way from paths to an analysis, several files at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from llmbx.errors import InfraError

from . import sources
from .combine import combine
from .profile import FileProfile, read
from .values import Analysis

WORTH = 8_000_000
"""Bytes of profiles from which a second process is worth its start."""


def analyze(paths: Sequence[Path], top: int = 10, workers: int | None = None) -> Analysis:
    """Read every profile that `paths` mean and put them together (see `combine`). The files are only read.

    `workers` files are read at a time, by default one a core. Raises `UsageError` for what is no profile, `InfraError`
    for a damaged one or a missing nsys.
    """
    files = sources.find(paths)
    count = min(len(files), workers or len(os.sched_getaffinity(0)))
    large = sum(file.stat().st_size for file in files) > WORTH
    profiles = _read_all(files, count) if count > 1 and large else [read(file) for file in files]
    return combine(files, sources.places(files), profiles, top)


def _read_all(files: Sequence[Path], workers: int) -> list[FileProfile]:
    try:
        with ProcessPoolExecutor(workers) as pool:
            return list(pool.map(read, files))
    except (OSError, RuntimeError) as error:
        raise InfraError(f"a process that read profiles was lost ({error}): too little memory?") from error
