"""The plugin `analysis`: pages of sections. Its verbs are `compare`, `audit` and `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx import hookimpl

if TYPE_CHECKING:
    from llmbx.model import Section


@hookimpl
def write_sections(path: Path, title: str, sections: Sequence[Section]) -> bool:
    """One HTML page that needs nothing else."""
    from .report.html import write_sections as write

    write(path, title, sections)
    return True
