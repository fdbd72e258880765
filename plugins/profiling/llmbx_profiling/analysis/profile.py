"""One file read and measured: every lane of it, its ranges, and what wrote it. The work of one process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from llmbx.model import Value

from ..tools import exported
from . import activity, hidden, kernels, lane, ranges, windows
from .database import Database, opened

GAPS = 20
"""Longest gaps that are kept of every lane."""


class LaneProfile(Value, frozen=True):
    """One lane: its windows and what was measured in them. Without a device: a process that ran on the CPU alone."""

    process: int
    device: int | None
    windows: tuple[windows.Window, ...]
    measured: lane.Measured | None


class FileProfile(Value, frozen=True):
    """One file: its lanes, its ranges, and what is to be said about it."""

    lanes: tuple[LaneProfile, ...]
    ranges: tuple[ranges.Totals, ...]
    product: str | None
    schema: str | None
    notes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def read(path: Path) -> FileProfile:
    """Everything that is to be known of the profile at `path` (a report is exported first, to a folder of its own)."""
    if path.suffix != ".sqlite":
        with exported(path, os.environ) as export:
            return read(export)
    with opened(path) as database:
        return _read(database)


def _read(database: Database) -> FileProfile:
    steps = ranges.steps(database)
    shelf = activity.read(database)
    cuts = windows.windows(database, steps, {key: lane.extent(item) for key, item in shelf.lanes.items()})
    lanes = []
    for key in sorted(shelf.lanes, key=lambda k: (shelf.lanes[k].device, shelf.lanes[k].process)):
        item = shelf.lanes.pop(key)
        measured = lane.measure(item, cuts[key], shelf, GAPS)
        lanes.append(LaneProfile(process=item.process, device=item.device, windows=tuple(cuts[key]), measured=measured))
    meta = database.meta()
    return FileProfile(
        lanes=tuple(lanes or _on_cpu(steps)),
        ranges=tuple(ranges.totals(database)),
        product=meta.get("EXPORT_PRODUCT_VERSION"),
        schema=meta.get("EXPORT_SCHEMA_VERSION"),
        notes=_notes(database, steps, shelf.names),
        secrets=hidden.secrets_in(database, os.environ),
    )


def _on_cpu(steps: Sequence[ranges.StepRange]) -> list[LaneProfile]:
    """A program that left no GPU activity still has its steps."""
    found: dict[int, list[windows.Window]] = {}
    for step in steps:
        found.setdefault(step.process, []).append(windows.Window(number=step.number, start=step.start, end=step.end))
    return [
        LaneProfile(process=process, device=None, windows=tuple(cuts), measured=None) for process, cuts in found.items()
    ]


def _notes(database: Database, steps: Sequence[ranges.StepRange], names: dict[int, str]) -> tuple[str, ...]:
    notes = []
    gpu = "CUPTI_ACTIVITY_KIND_KERNEL" in database.tables
    if not steps:
        notes.append("no step ranges: the capture is taken whole" if gpu else "neither GPU activity nor step ranges")
    elif gpu and "CUPTI_ACTIVITY_KIND_RUNTIME" not in database.tables:
        notes.append("launches were not recorded: steps are cut by their ranges on the CPU")
    if kernels.GRAPH in names.values():
        notes.append("CUDA graphs were traced whole: what they compute and communicate cannot be told apart")
    return tuple(notes)
