"""Runs as offline runs of Weights & Biases, written by its own package."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llmbx.api import disk_errors

from .choice import Chosen
from .steps import configuration, figures, series, verdicts


def write(chosen: Sequence[Chosen], folder: Path, project: str) -> int:
    """Write one offline run per run and return their number. Raises `UsageError` without the package.

    The id is that of the run, so that a second upload replaces the first one.
    """
    from llmbx.api.verbs import imported

    library = imported("wandb")
    with disk_errors(str(folder)), _kept("WANDB_MODE", "offline"):
        folder.mkdir(parents=True, exist_ok=True)
        for run in chosen:
            _write_run(library, run, folder, project)
    return len(chosen)


def _write_run(library: Any, one: Chosen, folder: Path, project: str) -> None:
    row = one.row
    quiet = library.Settings(
        console="off", silent=True, disable_git=True, save_code=False, x_disable_stats=True, x_disable_meta=True
    )
    run = library.init(
        project=project, dir=str(folder), mode="offline", id=row["id"], name=row["run_id"],
        group=row["experiment"], job_type=row["status"], tags=list(row["tags"]), config=configuration(row),
        settings=quiet, reinit="finish_previous",
    )  # fmt: skip
    for step, values in series(one.run):
        if values:
            run.log(values, step=step.number)
    run.summary.update({**figures(row), **verdicts(row)})
    run.finish(exit_code=0 if row["status"] == "completed" else 1)


@contextlib.contextmanager
def _kept(name: str, value: str) -> Iterator[None]:
    """Set an environment variable, and restore it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
