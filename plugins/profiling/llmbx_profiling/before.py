"""What is said before a profiled run starts: size, room on the disk, and whether nsys is here."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llmbx.model import Finding, RunSpec

from . import tools
from .nsys_wrap import TOOL
from .sizes import estimate, free_space, human


def findings(spec: RunSpec, environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """An estimate as a note; an error where the disk cannot hold it, or a local run would not find nsys."""
    return [*_size(spec), *_tool(spec, environ)]


def _size(spec: RunSpec) -> list[Finding]:
    if spec.profile is None or spec.profile.tool != TOOL:
        return []
    files, size = estimate(spec)
    free = free_space(spec.install)
    count = "1 file" if files == 1 else f"{files} files"
    said = f"the profile will be {count} of about {human(size / files)}, {human(size)} in all"
    if free is None:
        return [
            Finding(rule="profile_size", problem=said, fix="fewer --ranks or --steps make it smaller", warning=True)
        ]
    return [
        Finding(
            rule="profile_size",
            problem=f"{said}; {human(free)} are free in {spec.install}",
            fix="fewer --ranks or --steps make it smaller",
            warning=size <= free,
        )
    ]


def _tool(spec: RunSpec, environ: Mapping[str, str]) -> list[Finding]:
    # A container brings its own nsys, and a job's nodes may have one that this machine has not.
    if spec.launcher != "local" or spec.runtime not in ("venv", "host") or tools.find(environ):
        return []
    return [
        Finding(
            rule="profiler_missing",
            problem=f"nsys is not on PATH ({tools.command(environ)})",
            fix=f"install Nsight Systems, or name its command with {tools.VARIABLE}",
        )
    ]
