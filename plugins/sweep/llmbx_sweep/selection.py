"""Find the runs of a sweep for `llmbx report`, and list those that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from llmbx.api import RunFolder, RunGroup, UsageError
from llmbx.api.verbs import Install, Run

from . import store
from .state import Slot, runs_of, slot_of, slots
from .store import Sweep

SHOWN = 5
"""Most cells without a run that a note lists."""


def find(install: Install, text: str) -> RunGroup | None:
    """The runs of the sweep with this folder, id or unique prefix of an id; None if there is no such sweep.

    If a slot has several runs, only a completed one is returned, or all if none has completed. Raises `UsageError` if
    the sweep has no runs.
    """
    sweep = _sweep(install, text)
    if sweep is None:
        return None
    by_slot: dict[Slot, list[Run]] = {}
    for run in runs_of(install, sweep):
        by_slot.setdefault(slot_of(run), []).append(run)
    if not by_slot:
        raise UsageError(f"{sweep.sweep_id}: no run of this sweep has started")
    used = [run for runs in by_slot.values() for run in _used(runs)]
    return RunGroup(folders=tuple(run.folder for run in used), notes=tuple(_notes(sweep, by_slot)))


def _sweep(install: Install, text: str) -> Sweep | None:
    if RunFolder(path=Path(text)).file(store.FILE).exists():
        return store.read(Path(text))
    try:
        return store.find(install, text)
    except UsageError:
        return None


def _used(runs: Sequence[Run]) -> Sequence[Run]:
    """The runs of one slot that are reported."""
    completed = [run for run in runs if (result := run.read_result()) and result.status == "completed"]
    return completed[:1] or runs


def _notes(sweep: Sweep, by_slot: dict[Slot, list[Run]]) -> Iterator[str]:
    missing = [slot for slot in slots(sweep) if slot not in by_slot]
    if missing:
        cells = list(dict.fromkeys(cell for cell, _ in missing))
        listed = "; ".join(cells[:SHOWN]) + (" …" if len(cells) > SHOWN else "")
        yield f"{sweep.sweep_id}: {len(missing)} of {sweep.runs} runs have not started ({listed})"
    superseded = sum(len(runs) - len(_used(runs)) for runs in by_slot.values())
    if superseded:
        yield f"{sweep.sweep_id}: {superseded} earlier runs left out: their slots have a completed run"
