"""Hooks of telemetry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Evidence, Launch, RunSpec, Section, Settings, hookimpl
from llmbx.api.verbs import Observed


@hookimpl
def register_settings() -> type[Settings]:
    """Register the settings of telemetry."""
    from .settings import TelemetrySettings

    return TelemetrySettings


@hookimpl
def register_companions(spec: RunSpec, launch: Launch) -> Sequence[Launch.Companion]:
    """Run the sampler beside the ranks of each node."""
    from .companion import companions

    return companions(spec, launch)


@hookimpl
def observe_run(evidence: Evidence) -> Observed | None:
    """Say what the nodes, the GPUs and the ranks did over the window."""
    from .observe import observe

    return observe(evidence)


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """Show the figures of the hardware, what was sampled, and how the ranks waited."""
    from .sections import sections

    return sections(run_dir)
