"""Check the free disk space before something is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from llmbx.api import InfraError, format_bytes, free_bytes


def require_space(
    folder: Path,
    needed: float,
    need: str,
    remedy: str = "free some space",
    size: Callable[[float], str] = format_bytes,
) -> None:
    """Raise `InfraError` if the disk of `folder` has less than `needed` bytes free.

    `need` says what needs them ("image x: the import needs about"); `size` writes a size.
    """
    free = free_bytes(folder)
    if free is None or free >= needed:
        return
    raise InfraError(
        f"{need} in {folder}, but only {size(free)} are free: {remedy} or set LLMB_INSTALL to a "
        f"folder on another disk"
    )
