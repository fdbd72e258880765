"""Runs in a file store of MLflow, written by its own package."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llmbx.api import disk_errors

from .choice import Chosen
from .measures import text
from .steps import configuration, figures, series, verdicts

ID = "llmbx.run_id"
"""Tag of a run in the store: the id of the run of llmbx."""

AT_ONCE = 1000
"""Most metrics that the store takes in one call."""

MAX_PARAM = 500
"""Most characters of a parameter that every version of MLflow stores."""


def write(chosen: Sequence[Chosen], folder: Path, experiment: str | None) -> int:
    """Write the runs that the store does not have, and return their number. Raises `UsageError` without the package."""
    from llmbx.api.verbs import imported

    library = imported("mlflow")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 asks for it
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing leaves the machine
    client = library.MlflowClient(tracking_uri=folder.absolute().as_uri())
    with disk_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        return sum(_write_run(library, client, run, experiment or run.row["workload.name"]) for run in chosen)


def _write_run(library: Any, client: Any, one: Chosen, name: str) -> bool:
    """Whether the run was written."""
    row = one.row
    experiment = client.get_experiment_by_name(name)
    place = client.create_experiment(name) if experiment is None else experiment.experiment_id
    if client.search_runs([place], f"tags.`{ID}` = '{row['run_id']}'"):
        return False
    began = int(1000 * row["created"].timestamp())
    marks = {ID: row["run_id"], **verdicts(row), **{f"tag.{tag}": "true" for tag in row["tags"]}}
    run = client.create_run(place, start_time=began, tags=marks, run_name=row["run_id"]).info.run_id
    metrics = [*_metrics(library, one, began)]
    params = [library.entities.Param(key, text(value)[:MAX_PARAM]) for key, value in configuration(row).items()]
    client.log_batch(run, params=params)
    for start in range(0, len(metrics), AT_ONCE):
        client.log_batch(run, metrics=metrics[start : start + AT_ONCE])
    total = row["timing.total_s"]
    client.set_terminated(
        run, "FINISHED" if row["status"] == "completed" else "FAILED",
        end_time=None if total is None else began + int(1000 * total),
    )  # fmt: skip
    return True


def _metrics(library: Any, one: Chosen, began: int) -> Iterator[Any]:
    """Measured figures, and the series of the steps. The log has no time of day: a step's is its sum of times."""
    yield from (library.entities.Metric(name, value, began, 0) for name, value in figures(one.row).items())
    elapsed = 0.0
    for step, values in series(one.run):
        elapsed += step.time_s if step.time_s is not None and math.isfinite(step.time_s) else 0.0
        at = began + int(1000 * elapsed)
        yield from (library.entities.Metric(f"step.{name}", value, at, step.number) for name, value in values.items())
