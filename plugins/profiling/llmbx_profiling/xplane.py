"""The profiler that a framework of JAX has itself: asked for by `--tool xplane`, switched on by the framework."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx import hookimpl
from llmbx.model import Finding, Launch, Profiler, RunSpec


@hookimpl
def register_profiler() -> Profiler:
    """JAX's profiler records the steps that are asked for."""
    return Profiler(takes_steps=True, disturbs="")


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch | None:
    """Nothing goes around the program: the framework maps the profiled steps to its own switches."""
    return None


@hookimpl
def analyze(spec: RunSpec, run_dir: Path) -> Sequence[Finding]:
    """Whether there is a profile at all."""
    from .own_profilers import missing

    return missing(spec, run_dir, ("*.xplane.pb",), "XPlane profile")
