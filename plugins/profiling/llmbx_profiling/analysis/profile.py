"""Read and measure one profile: its lanes, ranges and metadata. Files are read in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmbx.api import RunFile, Value

from ..nsys_tools import export_sqlite
from . import activity, kernels, lane_metrics, ranges, secret_scan, windows
from .database import Database, open_profile

GAPS = 20
"""Number of longest gaps stored per lane."""


class LaneProfile(Value, frozen=True):
    """One lane with its windows and metrics. `device` is None for a process without GPU activity."""

    process: int
    device: int | None
    windows: tuple[windows.Window, ...]
    metrics: lane_metrics.LaneMetrics | None


class FileProfile(Value, frozen=True):
    """One file: its lanes, ranges, metadata, notes and secrets."""

    lanes: tuple[LaneProfile, ...]
    ranges: tuple[ranges.Totals, ...]
    product: str | None
    schema: str | None
    notes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def read(path: Path | RunFile, environ: Mapping[str, str] = os.environ) -> FileProfile:
    """Read the profile at `path`; a report is first exported to a temporary folder, with the nsys of `environ`."""
    if path.suffix != ".sqlite":
        with export_sqlite(path, environ) as export:
            return read(export, environ)
    with open_profile(path) as database:
        return _read(database, environ)


def _read(database: Database, environ: Mapping[str, str]) -> FileProfile:
    steps = ranges.steps(database)
    lane_set = activity.read(database)
    cuts = windows.windows(database, steps, {key: lane_metrics.extent(item) for key, item in lane_set.lanes.items()})
    lanes = []
    for key in sorted(lane_set.lanes, key=lambda k: (lane_set.lanes[k].device, lane_set.lanes[k].process)):
        item = lane_set.lanes.pop(key)
        metrics = lane_metrics.measure(item, cuts[key], lane_set, GAPS)
        lanes.append(LaneProfile(process=item.process, device=item.device, windows=tuple(cuts[key]), metrics=metrics))
    meta = database.meta()
    return FileProfile(
        lanes=tuple(lanes or _on_cpu(steps)),
        ranges=tuple(ranges.totals(database)),
        product=meta.get("EXPORT_PRODUCT_VERSION"),
        schema=meta.get("EXPORT_SCHEMA_VERSION"),
        notes=_notes(database, steps, lane_set.names),
        secrets=secret_scan.secrets_in(database, environ),
    )


def _on_cpu(steps: Sequence[ranges.StepRange]) -> list[LaneProfile]:
    """Return the steps of processes without GPU activity."""
    by_process: dict[int, list[windows.Window]] = {}
    for step in steps:
        by_process.setdefault(step.process, []).append(
            windows.Window(number=step.number, start=step.start, end=step.end)
        )
    return [
        LaneProfile(process=process, device=None, windows=tuple(cuts), metrics=None)
        for process, cuts in by_process.items()
    ]


def _notes(database: Database, steps: Sequence[ranges.StepRange], names: dict[int, str]) -> tuple[str, ...]:
    notes = []
    gpu = "CUPTI_ACTIVITY_KIND_KERNEL" in database.tables
    if not steps:
        notes.append(
            "no step ranges: the whole capture is analyzed as one" if gpu else "no GPU activity and no step ranges"
        )
    elif gpu and "CUPTI_ACTIVITY_KIND_RUNTIME" not in database.tables:
        notes.append("kernel launches were not recorded: steps are delimited by their ranges on the CPU")
    if kernels.GRAPH in names.values():
        notes.append("CUDA graphs were traced as a whole: their computation and communication cannot be separated")
    return tuple(notes)
