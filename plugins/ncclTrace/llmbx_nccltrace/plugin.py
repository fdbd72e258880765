"""What this plugin tells llmbx: thin hooks, each passes on to the module that knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmbx import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from llmbx.model import Figure, Finding, Launch, Profiler, RunSpec, Section
    from llmbx.model.settings import Settings


@hookimpl
def register_settings() -> type[Settings]:
    """What the trace records."""
    from .settings import TraceSettings

    return TraceSettings


@hookimpl
def register_profiler() -> Profiler:
    """A traced run is as short as the recipes': its log grows by gigabytes, and a short job starts sooner."""
    from llmbx.model import Profiler

    return Profiler(traces=True, steps=5, walltime_minutes=15, disturbs="communication was traced")


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """How large the trace may become, and how long the run needs; only warnings."""
    from .trace import advice

    return advice(spec) if spec.trace else []


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch | None:
    """The launch with NCCL's logging switched on, where the run is traced."""
    from .settings import trace_settings
    from .trace import traced

    return traced(trace_settings(spec), launch) if spec.trace else None


@hookimpl
def analyze(spec: RunSpec, run_dir: Path) -> Sequence[Finding]:
    """What the trace shows: the transport, ranks that lag, errors. The whole report goes to `nccl.json`."""
    from .findings import findings

    return findings(run_dir)


@hookimpl
def figures(spec: RunSpec, run_dir: Path) -> Sequence[Figure]:
    """Messages and bytes of each traced step, over all ranks."""
    from .findings import figures

    return figures(run_dir)


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """What the trace shows, with its charts and tables."""
    from .sections import of_run

    return of_run(run_dir)
