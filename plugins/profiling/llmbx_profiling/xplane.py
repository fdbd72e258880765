"""Hooks for JAX's own profiler: requested with `--tool xplane`, enabled by the framework."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import Launch, Profiler, RunSpec, Section, hookimpl

if TYPE_CHECKING:
    from llmbx.api import Check

FILES = ("*.xplane.pb",)


@hookimpl
def register_profiler() -> Profiler:
    """Register JAX's profiler, which records the requested steps."""
    return Profiler(takes_steps=True, disturbs="nothing")


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch | None:
    """Return None: the framework maps the profiled steps to its own options."""
    return None


@hookimpl
def register_checks() -> Sequence[Check]:
    """Check that the profiler wrote its files."""
    from .framework_profilers import check

    return [check(FILES, "XPlane profile")]


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """Name the profiles and the programs that show them."""
    from .framework_profilers import section

    return section(
        "xplane",
        "Profile of the steps (JAX's profiler)",
        run_dir,
        FILES,
        "XProf or TensorBoard with its profile plugin",
    )
