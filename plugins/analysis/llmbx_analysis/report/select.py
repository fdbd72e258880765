"""Which runs a report is about: named ones with their repeats, the runs of a sweep, or all in a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from llmbx.config.install import RECORD, Install
from llmbx.errors import LlmbxError, UsageError
from llmbx.history import Selection, find_run, select
from llmbx.model import Value
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run, read_run


class Chosen(Value, frozen=True):
    """The runs, and what is missing of what was asked for."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


def chosen(install: Install, texts: Sequence[str], single: bool, plugins: Plugins) -> Chosen:
    """The runs that `texts` mean, each once. Repeats of the same command come along unless `single`.

    Raises `UsageError` for a text that means none, or a folder or sweep without runs.
    """
    meant = [_meant(install, text, plugins) for text in texts]
    found = {run.record.run_id: run for part in meant for run in part.runs}
    alone = [run for run in found.values() if run.record.sweep is None]
    groups = set() if single else {run.record.group for run in alone if run.record.group is not None}
    for run in select(install, Selection(equal={"group": tuple(groups)})) if groups else ():
        found.setdefault(run.record.run_id, run)
    return Chosen(runs=tuple(found.values()), notes=tuple(note for part in meant for note in part.notes))


def _meant(install: Install, text: str, plugins: Plugins) -> Chosen:
    folder = Path(text)
    try:
        if folder.is_dir() and not (folder / RECORD).is_file():
            return _of_folder(install, text, plugins)
        return Chosen(runs=(find_run(install, text),))
    except UsageError:
        group = plugins.find_runs(install, text)
        if group is None:
            raise
        return Chosen(runs=tuple(read_run(Path(one)) for one in group.folders), notes=group.notes)


def _of_folder(install: Install, text: str, plugins: Plugins) -> Chosen:
    """The runs of a folder that is no run: what a plugin knows it for (a sweep), else every run below it."""
    if group := plugins.find_runs(install, text):
        return Chosen(runs=tuple(read_run(Path(one)) for one in group.folders), notes=group.notes)
    found = _below(Path(text))
    if not found:
        raise UsageError(f"{text}: no run in this folder")
    return Chosen(runs=tuple(found))


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
