"""Hooks for PyTorch's own profiler: requested with `--tool torch`, enabled by the framework."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Finding, Launch, Profiler, RunSpec, Section, hookimpl

FILES = ("*.pt.trace.json", "*.pt.trace.json.gz")


@hookimpl
def register_profiler() -> Profiler:
    """Register PyTorch's profiler, which records the requested steps."""
    return Profiler(takes_steps=True, disturbs="nothing")


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch | None:
    """Return None: the framework maps the profiled steps to its own options."""
    return None


@hookimpl
def analyze(spec: RunSpec, run_dir: Path) -> Sequence[Finding]:
    """Check that the profiler wrote a trace."""
    from .framework_profilers import missing

    return missing(spec, run_dir, FILES, "PyTorch profiler trace")


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """Name the profiles and the programs that show them."""
    from .framework_profilers import section

    return section(
        "torch",
        "Profile of the steps (PyTorch's profiler)",
        run_dir,
        FILES,
        "Perfetto or a Chromium browser (chrome://tracing)",
    )
