"""Checks before a profiled run: nsys on this machine, size of the profile, free disk space, and secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from llmbx.api import Finding, Obstacle, RunSpec, format_bytes, free_bytes, plural, rank_numbers

from . import nsys_tools
from .host_nsys import HOST_RUNTIMES
from .nsys_wrap import TOOL
from .settings import VARIABLE
from .sizes import estimate

MIN_PARALLEL_VERSION = (2023, 4)
"""Oldest version of nsys tested to profile several programs on one machine at the same time. Sessions of 2022.4 share a
memory segment and deadlock after a few starts."""

ADDS_ON_CPU = "the times of the profiled steps to the report (without a GPU it records ranges, and no operations)"
ADDS_ON_GPU = "the time of computation, communication and idle in each step to the report, and GPU counters on request"
"""What a profile by nsys has and those of the frameworks' own profilers have not; these are files for other viewers."""


def findings(spec: RunSpec) -> list[Finding]:
    """Return the estimated size, as an error if the disk is too small, and what the profile means for secrets."""
    return [*_size(spec), *_secrets(spec)]


def _size(spec: RunSpec) -> list[Finding]:
    if spec.profile is None or spec.profile.tool != TOOL:
        return []
    files, size = estimate(spec)
    free = free_bytes(Path(spec.install)) if spec.install else None
    shares = f"{plural(files, 'files')} of about {format_bytes(size / files)}"
    estimated = f"the profile will be {shares}, {format_bytes(size)} in all"
    if free is None:
        return [
            Finding(
                rule="profile_size",
                problem=estimated,
                fix="to make it smaller, profile fewer --ranks or --steps",
                warning=True,
            )
        ]
    return [
        Finding(
            rule="profile_size",
            problem=f"{estimated}; {format_bytes(free)} are free in {spec.install}",
            fix="to make it smaller, profile fewer --ranks or --steps",
            warning=size <= free,
        )
    ]


def obstacle(spec: RunSpec, environ: Mapping[str, str] = os.environ) -> Obstacle | None:
    """Return what keeps nsys from profiling the run on this machine: it is missing, or hangs with several ranks."""
    # A container may have its own nsys, and so may the compute nodes of a job.
    if spec.launcher != "local" or spec.runtime not in HOST_RUNTIMES:
        return None
    nsys = nsys_tools.find(environ)
    if nsys is None:
        return Obstacle(
            problem=f"nsys is not on PATH ({nsys_tools.command(environ)})",
            fix=f"install Nsight Systems, or set {VARIABLE} to its command",
            adds=ADDS_ON_CPU if spec.gpu_type == "cpu" else ADDS_ON_GPU,
        )
    ranks = len(rank_numbers(spec.profile.ranks, spec.gpus)) if spec.profile else 1
    version = nsys_tools.version(nsys)
    if ranks == 1 or not version or version >= MIN_PARALLEL_VERSION:
        return None
    return Obstacle(
        problem=f"nsys {version[0]}.{version[1]} hangs if several ranks of a machine are profiled ({ranks} requested)",
        fix="use Nsight Systems 2023.4 or newer, or --ranks first",
        adds=ADDS_ON_CPU if spec.gpu_type == "cpu" else ADDS_ON_GPU,
    )


def _secrets(spec: RunSpec) -> list[Finding]:
    profile = spec.profile
    if profile is None:
        return []
    if profile.keep_secrets:
        problem = f"the profiles will contain {', '.join(spec.secrets) or 'all secrets'} from the environment"
        fix = "they are marked and excluded from bundles; do not share them"
    elif spec.gated_tokenizer and not spec.mini:
        problem = "profiled runs have no access to HF_TOKEN and other secrets, since profiles store the environment"
        fix = f"download {spec.gated_tokenizer} with an unprofiled run first, or add --keep-secrets"
    else:
        return []
    return [Finding(rule="profile_secrets", problem=problem, fix=fix, warning=True)]
