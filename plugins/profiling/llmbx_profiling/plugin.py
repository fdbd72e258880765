"""Hooks of the nsys profiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import Figure, Finding, Launch, Obstacle, Profiler, RunSpec, Section, Settings, hookimpl

if TYPE_CHECKING:
    from llmbx.api import Check, Evidence


@hookimpl
def register_settings() -> type[Settings]:
    """Register the settings of nsys."""
    from .settings import NsysSettings

    return NsysSettings


@hookimpl
def register_profiler() -> Profiler:
    """Register nsys, which records the requested steps."""
    return Profiler(takes_steps=True, disturbs="nothing")


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Check the free disk space for the profile."""
    from .pre_run import findings

    return findings(spec)


@hookimpl
def profiler_obstacle(spec: RunSpec) -> Obstacle | None:
    """Report that a local run has no nsys, or one that hangs with several ranks."""
    import os

    from .pre_run import obstacle
    from .settings import tool_environ

    return obstacle(spec, tool_environ(spec, os.environ))


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch:
    """Wrap the profiled phases and ranks with nsys."""
    import os

    from .host_nsys import find_host_nsys
    from .nsys_tools import command
    from .nsys_wrap import wrap
    from .settings import tool_environ

    environ = tool_environ(spec, os.environ)
    return wrap(spec, launch, command(environ), find_host_nsys(spec, environ))[0]


@hookimpl
def register_checks() -> Sequence[Check]:
    """Check that every requested rank wrote its profile, and summarize small profiles."""
    from llmbx.api import Check

    return [
        Check(
            id="profiles",
            reads="The profiles of the requested ranks and steps.",
            means="A profile is missing, empty or of other steps; or what the profiles show.",
            do="See `llmbx nsys`.",
            effect="failed",
            test=_profiles,
            reads_files=True,
        )
    ]


def _profiles(evidence: Evidence) -> Sequence[Finding]:
    from .post_run import of_run

    return of_run(evidence)


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
