"""Analyze profiles, several files in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from llmbx.api import InfraError, RunFile

from . import sources
from .combine import combine
from .model import Analysis
from .profile import FileProfile, read
from .sources import Profile

PARALLEL_BYTES = 8_000_000
"""Minimum total bytes of profiles to use several processes."""


def analyze(
    paths: Sequence[Path | RunFile], top: int = 10, workers: int | None = None, environ: Mapping[str, str] = os.environ
) -> Analysis:
    """Read all profiles in `paths` (files and folders) and combine them. The files are not modified.

    `environ` names the nsys that exports reports. At most `workers` files are read in parallel, by default one per
    core. Raises `UsageError` if a file is not a profile, `InfraError` if it is damaged or nsys is missing.
    """
    files = sources.find(paths)
    count = min(len(files), workers or len(os.sched_getaffinity(0)))
    large = sum(map(sources.size, files)) > PARALLEL_BYTES
    reader = partial(read, environ=dict(environ))
    profiles = _read_all(files, count, reader) if count > 1 and large else [reader(file) for file in files]
    return combine(files, sources.file_ranks(files), profiles, top)


def _read_all(files: Sequence[Profile], workers: int, reader: Callable[[Profile], FileProfile]) -> list[FileProfile]:
    try:
        with ProcessPoolExecutor(workers) as pool:
            return list(pool.map(reader, files))
    except (OSError, RuntimeError) as error:
        raise InfraError(f"a worker process died while reading profiles, possibly out of memory: {error}") from error
