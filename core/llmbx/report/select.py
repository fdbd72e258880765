"""Which runs a report is about: named ones with their repeats, or all in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import LlmbxError, UsageError
from ..history import Selection, find_run, select
from ..install import RECORD, Install
from ..record import Run, read_run


def chosen(install: Install, texts: Sequence[str], single: bool) -> list[Run]:
    """The runs that `texts` mean, each once. Repeats of the same command come along unless `single`.

    Raises `UsageError` for a text that means none, or a folder without runs.
    """
    named = [run for text in texts for run in _meant(install, text)]
    found = {run.record.run_id: run for run in named}
    groups = set() if single else {run.record.group for run in named if run.record.group is not None}
    for run in select(install, Selection(equal={"group": tuple(groups)})) if groups else ():
        found.setdefault(run.record.run_id, run)
    return list(found.values())


def _meant(install: Install, text: str) -> list[Run]:
    folder = Path(text)
    if not folder.is_dir() or (folder / RECORD).is_file():
        return [find_run(install, text)]
    found = _below(folder)
    if not found:
        raise UsageError(f"{text}: no run in this folder")
    return found


def _below(folder: Path) -> list[Run]:
    """Every readable run below a folder, oldest first."""
    found = []
    for record in sorted(folder.rglob(RECORD)):
        try:
            found.append(read_run(record.parent))
        except LlmbxError:
            continue
    return sorted(found, key=lambda run: (run.record.created, run.record.run_id))
