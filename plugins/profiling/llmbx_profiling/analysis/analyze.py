"""The whole way from paths to an analysis, over as many processes as the machine has cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from llmbx.errors import InfraError

from . import sources
from .activity import Selection
from .combine import combine
from .profile import FileProfile, read, sample_lanes
from .values import Analysis

SPLIT = 24_000_000
"""Bytes from which work is worth a second process, whose start costs some hundredths of a second."""


def analyze(paths: Sequence[Path], top: int = 10, workers: int | None = None) -> Analysis:
    """Read every profile that `paths` mean and put them together (see `combine`). The files are only read.

    Raises `UsageError` for what is no profile, `InfraError` for a damaged one or a missing nsys.
    """
    files = sources.find(paths)
    count = workers if workers is not None else len(os.sched_getaffinity(0))
    parts = [(file, selection) for file in files for selection in _parts(file, len(files), count)]
    done = _mapped(parts, min(count, len(parts)) if _worth(files) else 1)
    profiles = [
        _joined([found for (path, _), found in zip(parts, done, strict=True) if path == file]) for file in files
    ]
    return combine(files, sources.places(files), profiles, top)


def _worth(files: Sequence[Path]) -> bool:
    return sum(file.stat().st_size for file in files) > SPLIT


def _parts(file: Path, files: int, workers: int) -> list[Selection]:
    """A large export of several devices shared out where there are fewer files than cores."""
    if workers <= files or file.suffix != ".sqlite" or file.stat().st_size < SPLIT:
        return [None]
    lanes = sample_lanes(file)
    groups = [group for n in range(min(workers, len(lanes))) if (group := lanes[n::workers])]
    if len(groups) < 2:
        return [None]
    # The first part takes everything that the others do not name, known or not.
    return [(False, tuple(key for group in groups[1:] for key in group)), *((True, group) for group in groups[1:])]


def _mapped(parts: Sequence[tuple[Path, Selection]], workers: int) -> list[FileProfile]:
    if workers < 2:
        return [read(*part) for part in parts]
    with ProcessPoolExecutor(workers - 1) as pool:
        # This process works too, instead of waiting for the others.
        futures: list[Future[FileProfile] | Callable[[], FileProfile]] = []
        mine = range(0, len(parts), workers)
        futures = [_later(part) if i in mine else pool.submit(read, *part) for i, part in enumerate(parts)]
        own = {i: future() for i, future in enumerate(futures) if not isinstance(future, Future)}
        try:
            return [own[i] if i in own else future.result() for i, future in enumerate(futures)]  # type: ignore[union-attr]
        except (OSError, RuntimeError) as error:
            raise InfraError(f"a process that read profiles was lost ({error}): too little memory?") from error


def _later(part: tuple[Path, Selection]) -> Callable[[], FileProfile]:
    return lambda: read(*part)


def _joined(parts: Sequence[FileProfile]) -> FileProfile:
    lanes: list[Any] = [lane for part in parts for lane in part.lanes]
    return parts[0].replace(lanes=tuple(sorted(lanes, key=lambda item: (item.device or 0, item.process))))
