"""The runs of an install, read from their folders, and found again by id, prefix or job id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import LlmbxError, UsageError, did_you_mean
from .finalise import finalise, job_status
from .install import RECORD, Install
from .model import Result, Value
from .plugins import Plugins
from .record import Run, read_run


class Entry(Value, frozen=True):
    """One run as `llmbx jobs` lists it; `status` is the result's, or the job's while it goes on."""

    run_id: str
    workload: str
    size: str
    dtype: str
    gpu_type: str
    gpus: int
    status: str
    created: float
    folder: str
    step_time_s: float | None = None
    tflops_per_gpu: float | None = None
    mfu: float | None = None
    cause: str | None = None
    tags: tuple[str, ...] = ()


def runs(install: Install) -> list[Run]:
    """Every readable run, newest first."""
    found = []
    for folder in install.run_dirs():
        try:
            found.append(read_run(folder))
        except LlmbxError:
            # Written by a newer llmbx or damaged: `find_run` names it, a listing goes on without it.
            continue
    return sorted(found, key=lambda run: (run.record.created, run.record.run_id), reverse=True)


def unreadable(install: Install) -> list[Path]:
    """Folders with a record that cannot be read."""
    known = {run.folder for run in runs(install)}
    return [folder for folder in install.run_dirs() if str(folder) not in known]


def entries(install: Install, plugins: Plugins) -> list[Entry]:
    """Every run with its status, newest first; runs that have ended meanwhile are finalised on the way."""
    return [entry(run, plugins) for run in runs(install)]


def entry(run: Run, plugins: Plugins) -> Entry:
    """One run with its status."""
    record = run.record
    result = settle(run, plugins)
    facts: dict[str, Any] = {
        "run_id": record.run_id,
        "workload": record.spec.workload,
        "size": record.spec.size,
        "dtype": record.spec.dtype,
        "gpu_type": record.spec.gpu_type,
        "gpus": record.spec.gpus,
        "created": record.created,
        "folder": run.folder,
        "tags": record.spec.tags,
    }
    if result is None:
        return Entry(**facts, status=job_status(run, plugins).state)
    return Entry(
        **facts,
        status=result.status,
        step_time_s=result.step_time_s.mean,
        tflops_per_gpu=result.tflops_per_gpu.mean,
        mfu=result.mfu.value,
        cause=result.cause,
    )


def settle(run: Run, plugins: Plugins) -> Result | None:
    """The run's result if it has ended, finalised now if need be; None while it goes on."""
    return finalise(run, plugins)


def find_run(install: Install, text: str) -> Run:
    """The run with this id, a unique prefix of it, its folder, or its scheduler's job id; "last" is the newest.

    Raises `UsageError` when none or several match.
    """
    folder = Path(text)
    if (folder / RECORD).is_file():
        return read_run(folder)
    known = runs(install)
    if text == "last" and known:
        return known[0]
    exact = [run for run in known if run.record.run_id == text or (run.record.job and run.record.job.job_id == text)]
    found = exact or [run for run in known if run.record.run_id.startswith(text)]
    if not found:
        hint = (
            did_you_mean(text, [run.record.run_id for run in known[:50]]) if known else f"; {install.root} has no runs"
        )
        raise UsageError(f"no run '{text}'{hint}")
    if len(found) > 1:
        newest = ", ".join(run.record.run_id for run in found[:3])
        raise UsageError(f"'{text}' fits {len(found)} runs; be more exact: {newest}{' …' if len(found) > 3 else ''}")
    return found[0]
