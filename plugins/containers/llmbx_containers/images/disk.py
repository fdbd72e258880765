"""Room on the disk, looked at before an import and not found out by it."""

from __future__ import annotations

import shutil
from pathlib import Path

from llmbx.cli.words import size
from llmbx.errors import InfraError

UNPACKED = 2.5
"""How much larger layers are unpacked than compressed (gzip; seen: 2.8 for a root of Python and its library)."""


def needed_bytes(layers: int, packed_again: bool) -> int:
    """Bytes that an import of `layers` compressed bytes takes at its peak.

    A tool that packs the image again (squashfs, SIF) has the layers, the unpacked tree and the new file side by side.
    """
    return int(layers * (1 + UNPACKED + 1)) if packed_again else int(layers * (1 + UNPACKED))


def require_room(folder: Path, needed: int, what: str) -> None:
    """Raise `InfraError` when `folder`'s disk has less than `needed` bytes free."""
    place = folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise InfraError(
            f"{what} needs about {size(needed)} in {folder} while it is imported, where {size(free)} are free: free "
            f"some space (`llmbx image prune`) or set LLMB_INSTALL to a folder on another disk"
        )
