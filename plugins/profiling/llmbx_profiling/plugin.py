"""Hooks of the nsys profiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Figure, Finding, Launch, Profiler, RunSpec, Section, hookimpl


@hookimpl
def register_profiler() -> Profiler:
    """Register nsys, which records the requested steps."""
    return Profiler(takes_steps=True, disturbs="")


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Check the free disk space for the profile, and for a local run that nsys is installed."""
    from .pre_run import findings

    return findings(spec)


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch:
    """Wrap the profiled phases and ranks with nsys."""
    import os

    from .host_nsys import find_host_nsys
    from .nsys_tools import command
    from .nsys_wrap import wrap

    return wrap(spec, launch, command(os.environ), find_host_nsys(spec, os.environ))[0]


@hookimpl
def analyze(spec: RunSpec, run_dir: Path) -> Sequence[Finding]:
    """Check that every requested rank wrote its profile, and summarize small profiles."""
    from .post_run import findings

    return findings(run_dir)


@hookimpl
def figures(spec: RunSpec, run_dir: Path) -> Sequence[Figure]:
    """Return computation, communication and idle time of the profiled steps."""
    from .figures import figures

    return figures(run_dir)


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """Return the report section with the time breakdown of the profiled steps."""
    from .post_run import sections

    return sections(run_dir)
