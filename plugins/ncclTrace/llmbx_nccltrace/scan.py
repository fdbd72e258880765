"""Read logs of any size: split them into chunks, count the chunks in parallel, and add up the counts."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from llmbx.api import InfraError, RunFile

from . import python_engine
from .blocks import Chunk
from .counts import LogCounts, append

Engine = Literal["auto", "native", "python"]

SMALL = 8 << 20
"""Logs of at most this many bytes are read in one thread: starting more, or processes, would take longer."""

SMALL_FILE = 1 << 20
"""Files of on average at most this many bytes are read in one thread."""

CHUNK_BYTES = 32 << 20
"""Minimum bytes per chunk of a file."""

Count = Callable[[Chunk], LogCounts]


def read_logs(
    paths: Sequence[Path | RunFile], engine: Engine = "auto", workers: int | None = None
) -> tuple[LogCounts, str]:
    """Return the counts of the logs and the name of the engine used. Memory does not grow with their size.

    `auto` uses the native engine if it is installed; `native` requires it. Raises `InfraError` if it is missing or a
    log cannot be read.
    """
    count, sizes = workers or min(_cores(), 8), [_size(path) for path in paths]
    chunks = list(_chunks(paths, sizes, count))
    name, counter = _counter(engine)
    total = LogCounts()
    try:
        for counts in _count_all(name, counter, chunks, count if _is_parallel(name, sizes) else 1):
            append(total, counts)
    except (OSError, EOFError, zlib.error) as error:
        where = getattr(error, "filename", None) or (paths[0] if len(paths) == 1 else "a log")
        raise InfraError(f"cannot read {where}: {getattr(error, 'strerror', None) or error}") from error
    return total, name


def _counter(engine: Engine) -> tuple[str, Count]:
    if engine != "python":
        from . import native_engine

        if library := native_engine.load():
            return "native", native_engine.Counters(library).count
        if engine == "native":
            raise InfraError(
                "this installation of llmbx has no compiled scanner: reinstall it with a C compiler (gcc, clang), "
                "or use --engine python (slower)"
            )
    return "python", python_engine.count


def _is_parallel(name: str, sizes: Sequence[int]) -> bool:
    """Threads that read many small files wait for each other, since little of the work is in the native scanner."""
    return sum(sizes) > SMALL and (name != "native" or sum(sizes) > SMALL_FILE * len(sizes))


def _count_all(name: str, counter: Count, chunks: list[Chunk], workers: int) -> Iterable[LogCounts]:
    """Yield the counts of all chunks, in order.

    The native scanner releases the GIL, so it runs in threads; the Python engine needs processes.
    """
    if workers == 1 or len(chunks) == 1:
        yield from map(counter, chunks)
        return
    import concurrent.futures as futures

    kind = futures.ThreadPoolExecutor if name == "native" else futures.ProcessPoolExecutor
    with kind(min(workers, len(chunks))) as pool:
        yield from pool.map(counter, chunks)


def _chunks(paths: Sequence[Path | RunFile], sizes: Sequence[int], workers: int) -> Iterator[Chunk]:
    for number, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        origin = b"%d/" % number if len(paths) > 1 else b""
        pieces = max(1, min(workers, size // CHUNK_BYTES)) if path.suffix != ".gz" else 1
        bounds = [size * i // pieces for i in range(pieces)]
        for start, stop in zip(bounds, [*bounds[1:], None], strict=True):
            yield Chunk(path, start, stop, origin)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(path: Path | RunFile) -> int:
    try:
        status = path.status() if isinstance(path, RunFile) else path.stat()
        return status.st_size if status else 0
    except OSError as error:
        raise InfraError(f"cannot read {path}: {error.strerror or error}") from error
