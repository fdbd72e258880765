"""The profiler that a framework of PyTorch has itself: asked for by `--tool torch`, switched on by the framework."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx import hookimpl
from llmbx.model import Finding, Launch, Profiler, RunSpec


@hookimpl
def register_profiler() -> Profiler:
    """PyTorch's profiler records the steps that are asked for."""
    return Profiler(takes_steps=True, disturbs="")


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch | None:
    """Nothing goes around the program: the framework maps the profiled steps to its own switches."""
    return None


@hookimpl
def analyze(spec: RunSpec, run_dir: Path) -> Sequence[Finding]:
    """Whether there is a trace at all."""
    from .own_profilers import missing

    return missing(spec, run_dir, ("*.pt.trace.json", "*.pt.trace.json.gz"), "trace of PyTorch's profiler")
