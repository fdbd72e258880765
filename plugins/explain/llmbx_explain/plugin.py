"""Hooks of explain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import RunSpec, Section, hookimpl


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """Show where the time of a step went, how the ranks waited, and the samples under the steps."""
    from .slow.sections import sections

    return sections(run_dir)
