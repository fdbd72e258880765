"""What is there of a sweep, from the folders of its runs: each names its sweep, its cell and its repeat."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

from llmbx.config.install import RECORD, Install
from llmbx.errors import LlmbxError
from llmbx.launchers.base import Launcher, Unreachable
from llmbx.model import Result
from llmbx.record.folder import Run, read_result, read_run
from llmbx.run.recovery import recover

from .cells import Cell
from .store import Sweep

PATIENCE_S = 5.0

Slot = tuple[str, int]
"""A place in a sweep that one run fills: the key of the cell and which repeat, from 1."""


@dataclasses.dataclass(frozen=True)
class Census:
    """Every slot of a sweep in exactly one of three states."""

    done: dict[Slot, Result]
    going: dict[Slot, Run]
    missing: tuple[Slot, ...]


def slots(sweep: Sweep) -> list[Slot]:
    """All places of the sweep: first every cell once, then every cell again, so that an early end leaves a picture."""
    most = max((cell.repeats for cell in sweep.cells), default=0)
    return [(cell.key, number) for number in range(1, most + 1) for cell in sweep.cells if number <= cell.repeats]


def take(install: Install, sweep: Sweep, launcher: Launcher, again_failed: bool = False) -> Census:
    """Count what is there. Runs that were being started when llmbx died are found again or given up.

    A slot is done by a run that was started and has a result; a cancelled one is missing, and so is a failed one if
    `again_failed`. Of several runs in one slot a completed one counts, else the oldest. Raises `Unreachable`.
    """
    runs = runs_of(install, sweep)
    open_ = [run for run in runs if run.record.job is None and read_result(run.path) is None]
    recovered = {run.folder: run for run in recover(open_, launcher)}
    done: dict[Slot, Result] = {}
    going: dict[Slot, Run] = {}
    for run in (recovered.get(run.folder, run) for run in runs):
        slot, result = slot_of(run), read_result(run.path)
        if run.record.job is None:
            continue
        if result is None:
            going.setdefault(slot, run)
        elif _counts(result, again_failed) and not (slot in done and done[slot].status == "completed"):
            done[slot] = result if result.status == "completed" else done.get(slot, result)
    going = {slot: run for slot, run in going.items() if slot not in done}
    missing = tuple(slot for slot in slots(sweep) if slot not in done and slot not in going)
    return Census(done=done, going=going, missing=missing)


def take_patiently(
    install: Install, sweep: Sweep, launcher: Launcher, note: Callable[[str], None], again_failed: bool = False
) -> Census:
    """The same, once the scheduler answers; it is asked only for runs that were being started when llmbx died."""
    said = False
    while True:
        try:
            return take(install, sweep, launcher, again_failed)
        except Unreachable as error:
            if not said:
                note(f"{error}; waiting for it")
            said = True
            time.sleep(PATIENCE_S)


def slot_of(run: Run) -> Slot:
    """The place that the run has in its sweep."""
    assert run.record.sweep is not None
    return run.record.sweep.cell, run.record.sweep.repeat


def results(install: Install, sweep: Sweep) -> dict[Slot, Result]:
    """What has ended so far; nothing is asked of any scheduler."""
    found: dict[Slot, Result] = {}
    for run in runs_of(install, sweep):
        result = read_result(run.path)
        if result is not None and (result.status == "completed" or slot_of(run) not in found):
            found[slot_of(run)] = result
    return found


def _counts(result: Result, again_failed: bool) -> bool:
    if result.status == "cancelled":
        return False
    return result.data_valid or result.status == "completed" or not again_failed


def runs_of(install: Install, sweep: Sweep) -> list[Run]:
    """The runs of the sweep, oldest first. They lie where their specifications say."""
    found = []
    for base in sorted({_base(install, cell) for cell in sweep.cells}):
        for record in base.glob(f"*/*/{RECORD}"):
            try:
                run = read_run(record.parent)
            except LlmbxError:
                continue
            if run.record.sweep is not None and run.record.sweep.sweep_id == sweep.sweep_id:
                found.append(run)
    return sorted(found, key=lambda run: (run.record.created, run.record.run_id))


def _base(install: Install, cell: Cell) -> Path:
    return install.experiments(cell.spec.folder) / cell.spec.experiment
