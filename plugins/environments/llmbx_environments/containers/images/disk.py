"""Check free disk space before an import starts."""

from __future__ import annotations

from pathlib import Path

from llmbx.api import InfraError, format_bytes, free_bytes

UNPACKED = 2.5
"""Ratio of unpacked to compressed layer size (gzip; measured: 2.8 for Python and its standard library)."""


def needed_bytes(layers: int, packed_again: bool) -> int:
    """Peak disk usage in bytes of an import of `layers` compressed bytes.

    A tool that repacks the image (squashfs, SIF) stores the layers, the unpacked tree and the new file at once.
    """
    return int(layers * (1 + UNPACKED + 1)) if packed_again else int(layers * (1 + UNPACKED))


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raise `InfraError` if the disk of `folder` has less than `needed` bytes free; `what` names the image."""
    free = free_bytes(folder)
    if free is not None and free < needed:
        raise InfraError(
            f"{what}: the import needs about {format_bytes(needed)} in {folder}, "
            f"but only {format_bytes(free)} are free: "
            f"free some space (`llmbx image prune`) or set LLMB_INSTALL to a folder on another disk"
        )
