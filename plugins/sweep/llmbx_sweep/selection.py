"""The runs of one sweep, as a report reads them: those that count, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from llmbx.config.install import Install
from llmbx.errors import UsageError
from llmbx.model import RunGroup
from llmbx.record.folder import Run, read_result

from . import store
from .census import Slot, runs_of, slot_of, slots
from .store import Sweep

SHOWN = 5
"""Cells without a run that are named one by one."""


def find(install: Install, text: str) -> RunGroup | None:
    """The runs of the sweep with this folder, id or unique prefix of an id; None where there is no such sweep.

    Of several runs in one place a completed one counts; without one all are returned. Raises `UsageError` for a sweep
    without runs.
    """
    sweep = _sweep(install, text)
    if sweep is None:
        return None
    places: dict[Slot, list[Run]] = {}
    for run in runs_of(install, sweep):
        places.setdefault(slot_of(run), []).append(run)
    if not places:
        raise UsageError(f"{sweep.sweep_id}: no run of this sweep has begun")
    counting = [run for tries in places.values() for run in _counting(tries)]
    return RunGroup(folders=tuple(run.folder for run in counting), notes=tuple(_notes(sweep, places)))


def _sweep(install: Install, text: str) -> Sweep | None:
    if (Path(text) / store.FILE).is_file():
        return store.read(Path(text) / store.FILE)
    try:
        return store.find(install, text)
    except UsageError:
        return None


def _counting(tries: Sequence[Run]) -> Sequence[Run]:
    completed = [run for run in tries if (result := read_result(run.path)) and result.status == "completed"]
    return completed[:1] or tries


def _notes(sweep: Sweep, places: dict[Slot, list[Run]]) -> Iterator[str]:
    missing = list(dict.fromkeys(cell for cell, number in slots(sweep) if (cell, number) not in places))
    lost = sum(slot not in places for slot in slots(sweep))
    if lost:
        named = "; ".join(missing[:SHOWN]) + (" …" if len(missing) > SHOWN else "")
        yield f"{sweep.sweep_id}: {lost} of {sweep.runs} runs have not begun ({named})"
    again = sum(len(tries) - len(_counting(tries)) for tries in places.values())
    if again:
        yield f"{sweep.sweep_id}: {again} earlier tries, repeated with success, are left out"
