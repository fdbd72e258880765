"""The workloads of a catalog without what a listing does not show, kept in the user's cache.

A listing must not become slower with the number of rows. The files of the catalog stay the only source: what is kept
counts as long as none of them has changed, nor this program.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from .. import __version__
from ..codec import decode
from ..errors import InfraError
from ..files import write_atomic
from ..model import Recipe, Row, Size, Value, Workload
from ..toml_file import NOT_JSON

Stamp = tuple[str, int, int, int, int]
"""A file: its path, size, inode, and the times at which its content and its status changed, in nanoseconds."""

_listing = False


class Index(Value, frozen=True):
    """What was kept of the workloads of some files, with their stamps."""

    version: str
    stamps: tuple[Stamp, ...]
    workloads: tuple[Workload, ...]


@contextlib.contextmanager
def listing() -> Iterator[None]:
    """Let `load_workloads` return condensed workloads inside: nothing but a listing is made of them."""
    global _listing
    before, _listing = _listing, True
    try:
        yield
    finally:
        _listing = before


def is_listing() -> bool:
    """Whether condensed workloads suffice."""
    return _listing


def condensed(workload: Workload) -> Workload:
    """The workload with one row for each size of a recipe, which has all its dtypes, GPU types and scales."""
    return Workload(
        name=workload.name,
        title=workload.title,
        folder=workload.folder,
        aliases=workload.aliases,
        sizes={name: Size(model=size.model, title=size.title) for name, size in workload.sizes.items()},
        recipes=tuple(_condensed(recipe) for recipe in workload.recipes),
    )


def _condensed(recipe: Recipe) -> Recipe:
    rows = tuple(_joined(size, recipe) for size in dict.fromkeys(row.size for row in recipe.rows))
    return Recipe(
        name=recipe.name,
        title=recipe.title,
        released=recipe.released,
        source=recipe.source,
        driver=recipe.driver,
        history=recipe.history,
        rows=rows,
    )


def _joined(size: str, recipe: Recipe) -> Row:
    rows = [row for row in recipe.rows if row.size == size]
    return Row(
        size=size,
        dtypes=tuple(dict.fromkeys(dtype for row in rows for dtype in row.dtypes)),
        gpu_types=tuple(dict.fromkeys(name for row in rows for name in row.gpu_types)),
        gpus=tuple(dict.fromkeys(text for row in rows for text in row.gpus)),
        gbs=1,
    )


def kept(root: Path, files: Sequence[Path], load: Callable[[], list[Workload]]) -> list[Workload]:
    """The condensed workloads of the catalog in `root`, which `load` reads from these `files`.

    The files are read if the index is missing or older than they are, and each time if the cache is read-only.
    """
    stamps = tuple(map(_stamp, (Path(__file__), *files)))
    place = _place(root)
    index = _read(place) if place else None
    if index is not None and (index.version, index.stamps) == (__version__, stamps):
        return [*index.workloads]
    workloads = [condensed(workload) for workload in load()]
    if place is not None:
        index = Index(version=__version__, stamps=stamps, workloads=tuple(workloads))
        with contextlib.suppress(InfraError):
            write_atomic(place, msgspec.json.encode(index), durable=False)
    return workloads


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError:
        return (str(file), -1, -1, -1, -1)
    return (str(file), status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def _place(root: Path) -> Path | None:
    """The file of the index; None without a home folder."""
    with contextlib.suppress(RuntimeError):
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        return folder / "llmbx" / "catalog" / f"{zlib.crc32(os.fsencode(root)):08x}.json"
    return None


def _read(file: Path) -> Index | None:
    try:
        return decode(file.read_bytes(), Index)
    except (OSError, *NOT_JSON):
        return None
