"""nsys as a plugin: what it adds to a launch, what it says before, and what it finds afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx import hookimpl
from llmbx.model import Figure, Finding, Launch, Profiler, RunSpec, Section


@hookimpl
def register_profiler() -> Profiler:
    """nsys records the steps that are asked for."""
    return Profiler(takes_steps=True, disturbs="")


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """The profile's size and whether the disk holds it; whether nsys is here, where it is to run here."""
    from .before import findings

    return findings(spec)


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch:
    """nsys around the phases and ranks that are to be profiled."""
    import os

    from .lending import lendable
    from .nsys_wrap import wrap
    from .tools import command

    return wrap(spec, launch, command(os.environ), lendable(spec, os.environ))[0]


@hookimpl
def analyze(spec: RunSpec, run_dir: Path) -> Sequence[Finding]:
    """Whether every asked rank left its profile, and what small profiles show."""
    from .after import findings

    return findings(run_dir)


@hookimpl
def figures(spec: RunSpec, run_dir: Path) -> Sequence[Figure]:
    """Of the profiled steps: what the GPUs computed, communicated, and waited for."""
    from .figures import figures

    return figures(run_dir)


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """Where the profiled steps' time went."""
    from .after import sections

    return sections(run_dir)
