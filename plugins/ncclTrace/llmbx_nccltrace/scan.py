"""Reads logs of any size: splits them into stretches, counts these at once, and adds up what they show."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from llmbx.errors import InfraError

from . import counting
from .blocks import Stretch
from .tally import Tally, append

Engine = Literal["auto", "native", "python"]

SMALL = 8 << 20
"""Up to so many bytes Python alone is quick enough: compiling would take longer."""

STRETCH = 32 << 20
"""A file is not split into pieces smaller than this."""

Count = Callable[[Stretch], Tally]


def read_logs(paths: Sequence[Path], engine: Engine = "auto", workers: int | None = None) -> tuple[Tally, str]:
    """What the logs show, and the engine that read them. Memory does not grow with their size.

    `auto` compiles a scanner for large logs where there is a C compiler; `native` insists on it. Raises `InfraError`.
    """
    count = workers or min(_cores(), 8)
    stretches = list(_stretches(paths, count))
    with _counter(engine, sum(_size(path) for path in paths)) as (name, counter):
        total = Tally()
        try:
            for tally in _all(name, counter, stretches, count):
                append(total, tally)
        except (OSError, EOFError, zlib.error) as error:
            where = getattr(error, "filename", None) or (paths[0] if len(paths) == 1 else "a log")
            raise InfraError(f"{where} could not be read: {getattr(error, 'strerror', None) or error}") from error
    return total, name


@contextmanager
def _counter(engine: Engine, size: int) -> Iterator[tuple[str, Count]]:
    if engine == "python" or (engine == "auto" and size <= SMALL):
        yield "python", counting.count
        return
    from . import native

    with native.scanner(os.environ) as compiled:
        if compiled:
            yield "native", partial(native.count, compiled)
        elif engine == "native":
            raise InfraError("no C compiler was found: install gcc or clang, or use --engine python, which is slower")
        else:
            yield "python", counting.count


def _all(name: str, counter: Count, stretches: list[Stretch], workers: int) -> Iterable[Tally]:
    """The tallies of all stretches, in order. The scanner lets threads run at once; Python needs processes for that."""
    if workers == 1 or len(stretches) == 1:
        yield from map(counter, stretches)
        return
    import concurrent.futures as futures

    large = sum((s.stop or _size(s.path)) - s.start for s in stretches) > SMALL
    kind = futures.ProcessPoolExecutor if name == "python" and large else futures.ThreadPoolExecutor
    with kind(min(workers, len(stretches))) as pool:
        yield from pool.map(counter, stretches)


def _stretches(paths: Sequence[Path], workers: int) -> Iterator[Stretch]:
    for number, path in enumerate(paths):
        origin = b"%d/" % number if len(paths) > 1 else b""
        pieces = max(1, min(workers, _size(path) // STRETCH)) if path.suffix != ".gz" else 1
        bounds = [_size(path) * i // pieces for i in range(pieces)]
        for start, stop in zip(bounds, [*bounds[1:], None], strict=True):
            yield Stretch(path, start, stop, origin)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise InfraError(f"{path} could not be read: {error.strerror or error}") from error
