"""The plugin `analysis`. It provides the commands `compare`, `audit` and `report`, compares runs that alternated, and
writes pages of sections.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import hookimpl

if TYPE_CHECKING:
    from llmbx.api import ComparisonOutcome, Section


@hookimpl
def write_sections(path: Path, title: str, sections: Sequence[Section]) -> bool:
    """Write the sections as one self-contained HTML page."""
    from .report.html import write_sections as write

    write(path, title, sections)
    return True


@hookimpl
def compare_sides(a: Sequence[Path], b: Sequence[Path], tolerance: float) -> ComparisonOutcome:
    """Compare the runs as `llmbx compare` does."""
    from .compare.outcome import compare_folders

    return compare_folders(a, b, tolerance)
