"""Select the runs of a report: named runs with their repeats, the runs of a sweep, or all runs in a folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmbx.api import LlmbxError, RunFolder, UsageError, Value
from llmbx.api.verbs import Install, Plugins, Run, Selection


class Selected(Value, frozen=True):
    """The selected runs, and notes on runs that are missing."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


def select_runs(install: Install, texts: Sequence[str], single: bool, plugins: Plugins) -> Selected:
    """Find the runs named by `texts`, without duplicates. Unless `single` is set, their repeats are added.

    Raises `UsageError` if a text names no run, or a folder or sweep without runs.
    """
    parts = [_find(install, text, plugins) for text in texts]
    by_id = {run.record.run_id: run for part in parts for run in part.runs}
    not_in_sweep = [run for run in by_id.values() if run.record.sweep is None]
    groups = set() if single else {run.record.group for run in not_in_sweep if run.record.group is not None}
    repeats = Selection(equal={"group": tuple(groups)})
    for run in plugins.history.select(install, repeats) if groups else ():
        by_id.setdefault(run.record.run_id, run)
    return Selected(runs=tuple(by_id.values()), notes=tuple(note for part in parts for note in part.notes))


def _find(install: Install, text: str, plugins: Plugins) -> Selected:
    folder = Path(text)
    try:
        if folder.is_dir() and not RunFolder(path=folder).file("run.json").exists():
            return _of_folder(install, text, plugins)
        return Selected(runs=(plugins.find_run(install, text),))
    except UsageError:
        group = plugins.find_runs(install, text)
        if group is None:
            raise
        return Selected(runs=tuple(Run.read(Path(path)) for path in group.folders), notes=group.notes)


def _of_folder(install: Install, text: str, plugins: Plugins) -> Selected:
    """The runs of a folder: those that a plugin finds for it (a sweep), else all runs below it."""
    if group := plugins.find_runs(install, text):
        return Selected(runs=tuple(Run.read(Path(path)) for path in group.folders), notes=group.notes)
    runs = _below(Path(text))
    if not runs:
        raise UsageError(f"{text}: no runs in this folder")
    return Selected(runs=tuple(runs))


def _below(folder: Path) -> list[Run]:
    """Every readable run below a folder, oldest first."""
    runs = []
    for place in _run_folders(folder):
        try:
            runs.append(Run.read(place))
        except LlmbxError:
            continue
    return sorted(runs, key=lambda run: (run.record.created, run.record.run_id))


def _run_folders(folder: Path) -> Iterator[Path]:
    """The run folders below a folder; they are not searched themselves, and links are not followed."""
    folders = [folder]
    while folders:
        here = folders.pop()
        if os.path.lexists(here / "run.json"):
            yield here
            continue
        with contextlib.suppress(OSError), os.scandir(here) as entries:  # some in /proc cannot be listed
            folders += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
