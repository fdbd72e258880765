"""Tags that this user gave to runs of other users, in a file of this user.

Only its owner writes in a run folder. The file is `$XDG_STATE_HOME/llmbx/tags.json`, and not in the
cache, which may be deleted.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from llmbx.api import NOT_JSON, decode, disk_errors, write_atomic

Tags = dict[str, list[str]]
"""Tags by the run's folder, without links."""


def path() -> Path:
    """The file of this user."""
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return state / "llmbx" / "tags.json"


def of(folder: Path) -> tuple[str, ...]:
    """The tags that this user gave to the run in `folder`."""
    file = path()
    try:
        changed = file.stat().st_mtime_ns
    except OSError:
        return ()
    return tuple(_read(file, changed).get(os.path.realpath(folder), ()))


def change(folder: Path, add: Collection[str], remove: Collection[str]) -> None:
    """Add and remove tags of the run in `folder`. Raises `InfraError` if it cannot be written."""
    from filelock import FileLock

    file, place = path(), os.path.realpath(folder)
    with disk_errors(str(file)):
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_name(f".{file.name}.lock")):
            tags: Tags = dict(_read(file, -1))
            changed = dict.fromkeys((*tags.get(place, ()), *add))
            tags[place] = [tag for tag in changed if tag not in remove]
            content = msgspec.json.encode({name: names for name, names in tags.items() if names})
            write_atomic(file, content + b"\n", 0o600)
    _read.cache_clear()


@functools.lru_cache(maxsize=2)
def _read(file: Path, changed: int) -> Tags:
    """The content of the file that was `changed` then: a listing of many runs reads it once."""
    try:
        return decode(file.read_bytes(), Tags)
    except (OSError, *NOT_JSON):
        return {}
