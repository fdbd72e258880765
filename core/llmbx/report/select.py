"""Which runs a report is about: named ones with their repeats, the runs of a sweep, or all in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..config.install import RECORD, Install
from ..errors import LlmbxError, UsageError
from ..history import Selection, find_run, select
from ..model import Value
from ..record.folder import Run, read_result, read_run
from ..sweep import store
from ..sweep.census import Slot, runs_of, slot_of, slots
from ..sweep.store import Sweep

SHOWN = 5
"""Cells without a run that are named one by one."""


class Chosen(Value, frozen=True):
    """The runs, and what is missing of what was asked for."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


def chosen(install: Install, texts: Sequence[str], single: bool) -> Chosen:
    """The runs that `texts` mean, each once. Repeats of the same command come along unless `single`.

    Raises `UsageError` for a text that means none, or a folder or sweep without runs.
    """
    meant = [_meant(install, text) for text in texts]
    found = {run.record.run_id: run for part in meant for run in part.runs}
    alone = [run for run in found.values() if run.record.sweep is None]
    groups = set() if single else {run.record.group for run in alone if run.record.group is not None}
    for run in select(install, Selection(equal={"group": tuple(groups)})) if groups else ():
        found.setdefault(run.record.run_id, run)
    return Chosen(runs=tuple(found.values()), notes=tuple(note for part in meant for note in part.notes))


def _meant(install: Install, text: str) -> Chosen:
    folder = Path(text)
    if folder.is_dir() and not (folder / RECORD).is_file() and not (folder / store.FILE).is_file():
        found = _below(folder)
        if not found:
            raise UsageError(f"{text}: no run in this folder")
        return Chosen(runs=tuple(found))
    if (folder / store.FILE).is_file():
        return _of_sweep(install, store.read(folder / store.FILE))
    try:
        return Chosen(runs=(find_run(install, text),))
    except UsageError as error:
        sweep = _sweep(install, text)
        if sweep is None:
            raise error
        return _of_sweep(install, sweep)


def _sweep(install: Install, text: str) -> Sweep | None:
    """The sweep of this id or a unique prefix of it, None where there is none."""
    try:
        return store.find(install, text)
    except UsageError:
        return None


def _of_sweep(install: Install, sweep: Sweep) -> Chosen:
    """The runs of a sweep. Of several in one place a completed one counts; without one all are told."""
    places: dict[Slot, list[Run]] = {}
    for run in runs_of(install, sweep):
        places.setdefault(slot_of(run), []).append(run)
    if not places:
        raise UsageError(f"{sweep.sweep_id}: no run of this sweep has begun")
    return Chosen(
        runs=tuple(run for tries in places.values() for run in _counting(tries)),
        notes=tuple(_notes(sweep, places)),
    )


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


def _below(folder: Path) -> list[Run]:
    """Every readable run below a folder, oldest first."""
    found = []
    # A folder that cannot be listed, as some of /proc, has no run for us.
    for top in sorted(top for top, _, files in os.walk(folder) if RECORD in files):
        try:
            found.append(read_run(Path(top)))
        except LlmbxError:
            continue
    return sorted(found, key=lambda run: (run.record.created, run.record.run_id))
