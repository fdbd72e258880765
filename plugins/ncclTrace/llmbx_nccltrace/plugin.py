"""Hooks of the NCCL trace plugin; each delegates to the module that implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmbx.api import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from llmbx.api import Check, Evidence, Figure, Finding, Launch, Profiler, RunSpec, Section, Settings


@hookimpl
def register_settings() -> type[Settings]:
    """Register the settings of the trace."""
    from .settings import TraceSettings

    return TraceSettings


@hookimpl
def register_profiler() -> Profiler:
    """Register the trace. Traced runs are as short as the recipes': logs reach gigabytes, and short jobs queue less."""
    from llmbx.api import Profiler

    return Profiler(traces=True, steps=5, walltime_minutes=15, disturbs="time")


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Warn about the expected size of the trace; unknown NCCL subsystems are errors."""
    from .trace import check_trace

    return check_trace(spec) if spec.trace else []


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch | None:
    """Enable NCCL logging if the run is traced."""
    from llmbx.api import settings_of

    from .settings import TraceSettings
    from .trace import enable_tracing

    return enable_tracing(settings_of(spec, TraceSettings), launch) if spec.trace else None


@hookimpl
def register_checks() -> Sequence[Check]:
    """Report the transport, lagging ranks and errors. The full report is written to `nccl.json`."""
    from llmbx.api import Check

    return [
        Check(
            id="trace",
            reads="The NCCL log of the traced run.",
            means="What the trace shows: transport, lagging ranks, errors.",
            do="See `llmbx nccl`.",
            effect="warning",
            test=_trace,
            reads_files=True,
        )
    ]


def _trace(evidence: Evidence) -> Sequence[Finding]:
    from .findings import findings

    assert evidence.run_dir is not None
    return findings(evidence.run_dir)


@hookimpl
def figures(spec: RunSpec, run_dir: Path) -> Sequence[Figure]:
    """Return the calls and message bytes of each traced step, summed over ranks."""
    from .findings import figures

    return figures(run_dir)


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """Return the report section of the trace, with charts and tables."""
    from .sections import run_sections

    return run_sections(run_dir)
