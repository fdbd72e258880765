"""Tags that this user gave to runs of other users: one file of this user, since only its owner writes in a run folder.

The file is `$XDG_STATE_HOME/llmbx/tags.json`, and not in the cache, which may be deleted.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from ..codec import decode
from ..files import disk_errors, write_atomic
from ..toml_file import NOT_JSON

Tags = dict[str, list[str]]
"""Tags by the run's folder, without links."""


def path() -> Path:
    """The file of this user."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "llmbx" / "tags.json"


def of(folder: Path) -> tuple[str, ...]:
    """The tags that this user gave to the run in `folder`."""
    file = path()
    try:
        changed = file.stat().st_mtime_ns
    except OSError:
        return ()
    return tuple(_read(file, changed).get(os.path.realpath(folder), ()))


def change(folder: Path, add: Collection[str], remove: Collection[str]) -> None:
    """Add and remove tags of the run in `folder`. Raises `InfraError` if the file cannot be written."""
    from filelock import FileLock

    file, place = path(), os.path.realpath(folder)
    with disk_errors(str(file)):
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_name(f".{file.name}.lock")):
            tags: Tags = dict(_read(file, -1))
            tags[place] = [tag for tag in dict.fromkeys((*tags.get(place, ()), *add)) if tag not in remove]
            write_atomic(file, msgspec.json.encode({name: own for name, own in tags.items() if own}) + b"\n", 0o600)
    _read.cache_clear()


@functools.lru_cache(maxsize=2)
def _read(file: Path, changed: int) -> Tags:
    """The content of the file that was `changed` then, which a listing of thousands of runs reads once."""
    try:
        return decode(file.read_bytes(), Tags)
    except (OSError, *NOT_JSON):
        return {}
