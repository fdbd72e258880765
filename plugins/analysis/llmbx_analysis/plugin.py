"""The plugin `analysis`: the commands `compare`, `audit` and `report`, `run --against`, and pages of sections."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import hookimpl

if TYPE_CHECKING:
    from llmbx.api import Section


@hookimpl
def write_sections(path: Path, title: str, sections: Sequence[Section]) -> bool:
    """Write the sections as one self-contained HTML page."""
    from .report.html import write_sections as write

    write(path, title, sections)
    return True
