"""The two ways to do the arithmetic: with numpy where it is installed, and without, with the same results."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from .lanes import Shelf

PURE = "LLMBX_WITHOUT_NUMPY"
"""Set to have everything computed without numpy."""


class Sorter(Protocol):
    """Sorts blocks of rows into the lanes of a shelf."""

    def add(self, starts: Sequence[int], ends: Sequence[int], keys: Sequence[int], names: Sequence[int]) -> None: ...

    def finish(self) -> None: ...


class Union(Protocol):
    """Disjoint, ascending segments (see `intervals.Union`)."""

    @property
    def starts(self) -> Any: ...

    @property
    def ends(self) -> Any: ...

    def within(self, start: int, end: int) -> int: ...

    def within_each(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]: ...

    def longest_gaps(self, start: int, end: int, count: int) -> list[tuple[int, int]]: ...


class Overlap(Protocol):
    """What two unions cover both (see `intervals.Overlap`)."""

    @property
    def each(self) -> Any: ...

    def within(self, start: int, end: int) -> int: ...


class Engine(NamedTuple):
    """Everything whose time grows with the number of kernels; `joined` makes one union of several."""

    sorter: Callable[[Shelf], Sorter]
    union: Callable[[Sequence[int], Sequence[int]], Union]
    joined: Callable[[Iterable[Any]], Union]
    overlap: Callable[[Any, Any], Overlap]


def chosen() -> Engine:
    """The engine for this process: numpy's where it is installed and not ruled out."""
    if os.environ.get(PURE, "") in ("", "0") and importlib.util.find_spec("numpy"):
        from . import vectors

        return Engine(vectors.Sorter, vectors.Union, vectors.Union.of, vectors.Overlap)
    from . import intervals, sorting

    return Engine(sorting.Sorter, intervals.Union, intervals.Union.of, intervals.Overlap)
