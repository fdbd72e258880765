"""What is said before a profiled run starts: size, room on the disk, and whether nsys is here."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llmbx.model import Finding, RunSpec
from llmbx.resolve.ranks import numbers

from . import tools
from .lending import OWN_FILES
from .nsys_wrap import TOOL
from .sizes import estimate, free_space, human

SIDE_BY_SIDE = (2023, 4)
"""The oldest nsys seen to profile two programs of one machine at once. Sessions of 2022.4 share a segment of memory and
block each other within a few starts."""


def findings(spec: RunSpec, environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """An estimate as a note; an error where the disk cannot hold it, or a local run would not find nsys."""
    return [*_size(spec), *_tool(spec, environ), *_secrets(spec)]


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
    if spec.launcher != "local" or spec.runtime not in OWN_FILES:
        return []
    nsys = tools.find(environ)
    if nsys is None:
        return [
            Finding(
                rule="profiler_missing",
                problem=f"nsys is not on PATH ({tools.command(environ)})",
                fix=f"install Nsight Systems, or name its command with {tools.VARIABLE}",
            )
        ]
    ranks = len(numbers(spec.profile.ranks, spec.gpus)) if spec.profile else 1
    found = tools.version(nsys)
    if ranks == 1 or not found or found >= SIDE_BY_SIDE:
        return []
    return [
        Finding(
            rule="profiler_version",
            problem=f"nsys {found[0]}.{found[1]} hangs when several ranks of one machine are profiled ({ranks} are)",
            fix="take Nsight Systems 2023.4 or newer, or --ranks first",
        )
    ]


def _secrets(spec: RunSpec) -> list[Finding]:
    profile = spec.profile
    if profile is None:
        return []
    if profile.keep_secrets:
        problem = f"the profiles will hold {', '.join(spec.secrets) or 'every secret'} of the environment"
        fix = "they are marked and never bundled; keep them to yourself"
    elif spec.gated_tokenizer and not spec.mini:
        problem = "a profiled run gets no HF_TOKEN or other secret, since profiles store the environment"
        fix = f"fetch {spec.gated_tokenizer} with an unprofiled run before, or add --keep-secrets"
    else:
        return []
    return [Finding(rule="profile_secrets", problem=problem, fix=fix, warning=True)]
