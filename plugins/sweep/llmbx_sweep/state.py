"""The state of a sweep, read from the folders of its runs. Each run records its sweep, cell and repeat."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

from llmbx.api import Launcher, LlmbxError, Result, RunFolder, Unreachable
from llmbx.api.verbs import Install, Run, Runner

from . import store
from .cells import Cell
from .store import Sweep

RETRY_S = 5.0
"""Seconds between two attempts to reach the scheduler."""

Slot = tuple[str, int]
"""One run of a sweep: the key of its cell and the number of its repeat, from 1."""


@dataclasses.dataclass(frozen=True)
class SweepState:
    """Every slot of a sweep is in exactly one of these: it has a result, it is submitted or running, or neither."""

    done: dict[Slot, Result]
    running: dict[Slot, Run]
    missing: tuple[Slot, ...]


def slots(sweep: Sweep) -> list[Slot]:
    """All slots of the sweep: the first repeat of every cell, then the second ones, and so on.

    If the sweep is stopped early, the results are spread over all cells.
    """
    most = max((cell.repeats for cell in sweep.cells), default=0)
    return [(cell.key, number) for number in range(1, most + 1) for cell in sweep.cells if number <= cell.repeats]


def read_state(sweep: Sweep, runner: Runner, retry_failed: bool = False) -> SweepState:
    """Read the state of the sweep. Runs that were being submitted when llmbx was killed are recovered or given up.

    A slot is done if one of its runs was submitted and has a final result (`is_final`). If a slot has several runs, a
    completed one is used, else the oldest. Raises `Unreachable` if the scheduler does not answer.
    """
    runs, launcher = runs_of(runner.install, sweep), runner.launcher
    without_job = [run for run in runs if run.record.job is None and run.read_result() is None]
    recovered = {run.folder: run for run in runner.recover(without_job)}
    done: dict[Slot, Result] = {}
    running: dict[Slot, Run] = {}
    for run in (recovered.get(run.folder, run) for run in runs):
        slot, result = slot_of(run), run.read_result()
        if run.record.job is None:
            continue
        if result is None:
            running.setdefault(slot, run)
        elif is_final(result, launcher, retry_failed) and not (slot in done and done[slot].status == "completed"):
            done[slot] = result if result.status == "completed" else done.get(slot, result)
    running = {slot: run for slot, run in running.items() if slot not in done}
    missing = tuple(slot for slot in slots(sweep) if slot not in done and slot not in running)
    return SweepState(done=done, running=running, missing=missing)


def wait_for_state(sweep: Sweep, runner: Runner, note: Callable[[str], None], retry_failed: bool = False) -> SweepState:
    """Read the state of the sweep; wait while the scheduler does not answer. `note` is called once with the reason.

    The scheduler is only queried for runs that were being submitted when llmbx was killed.
    """
    noted = False
    while True:
        try:
            return read_state(sweep, runner, retry_failed)
        except Unreachable as error:
            if not noted:
                note(f"{error}; waiting for it")
            noted = True
            time.sleep(RETRY_S)


def slot_of(run: Run) -> Slot:
    """The slot of a run of a sweep."""
    assert run.record.sweep is not None
    return run.record.sweep.cell, run.record.sweep.repeat


def results(install: Install, sweep: Sweep) -> dict[Slot, Result]:
    """The results so far. The scheduler is not queried."""
    newest: dict[Slot, Result] = {}
    for run in runs_of(install, sweep):
        result = run.read_result()
        if result is not None and (result.status == "completed" or slot_of(run) not in newest):
            newest[slot_of(run)] = result
    return newest


def is_final(result: Result, launcher: Launcher, retry_failed: bool) -> bool:
    """Whether a resumed sweep keeps the result: not that of a cancelled run or, with `retry_failed`, of a failed one.

    A run of an attended launcher that is lost ended with its llmbx, for example when the machine was restarted.
    """
    if result.status == "cancelled" or (result.status == "lost" and launcher.attended):
        return False
    return result.data_valid or result.status == "completed" or not retry_failed


def runs_of(install: Install, sweep: Sweep) -> list[Run]:
    """The runs of the sweep, oldest first, from the experiment folders of its cells.

    A run in another user's folder does not count, whatever its record says.
    """
    owner, runs = RunFolder(path=store.folder(install, sweep)).owner_id, []
    for base in sorted({_base(install, cell) for cell in sweep.cells}):
        for folder in base.glob("*/*"):
            try:
                place = RunFolder(path=folder)
                if place.owner_id != owner or sweep.sweep_id.encode() not in place.read("run.json"):
                    continue  # another run of the same configuration: decoding it takes ten times as long
                run = Run.read(folder)
            except (LlmbxError, OSError):
                continue
            if run.record.sweep is not None and run.record.sweep.sweep_id == sweep.sweep_id:
                runs.append(run)
    return sorted(runs, key=lambda run: (run.record.created, run.record.run_id))


def _base(install: Install, cell: Cell) -> Path:
    return install.experiments(cell.spec.folder) / cell.spec.experiment
