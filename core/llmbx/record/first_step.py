"""When a run's first step was done: seen by whoever follows the run from before it, kept beside the log."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from ..codec import decode
from ..errors import InfraError
from ..files import write_atomic
from ..model import Value
from .folder import Run

FILE = "first_step.json"
ROUNDED_S = 2.0
"""Schedulers tell whole seconds, and machines that keep time agree within less."""


class Seen(Value, frozen=True):
    """The job whose first step it was, and when its line was in the log, in epoch seconds (a poll of the log late)."""

    job_id: str
    at: float


def note(run: Run, at: float) -> None:
    """Keep it; the first one to follow the job wins. A folder that is not ours to write in keeps nothing."""
    job, known = run.record.job, _read(run.path)
    if job is None or (known is not None and known.job_id == job.job_id):
        return
    with suppress(InfraError):
        write_atomic(run.path / FILE, msgspec.json.encode(Seen(job_id=job.job_id, at=at)))


def seconds(run: Run, started: float | None, ended: float | None) -> float | None:
    """From the start of the ranks to the end of the first step; None where nobody watched.

    `started` and `ended` are the ranks', in epoch seconds: a line is seen up to a poll late, perhaps after the end.
    """
    job, found = run.record.job, _read(run.path)
    if job is None or found is None or started is None or found.job_id != job.job_id:
        return None
    return elapsed(started, min(found.at, ended or found.at))


def elapsed(begun: float | None, done: float | None) -> float | None:
    """Seconds between two times of the clock; None where one is not known or the clock was set back in between.

    Times of different machines or of whole seconds may be out of order by `ROUNDED_S`: that is 0.
    """
    if begun is None or done is None or done < begun - ROUNDED_S:
        return None
    return max(0.0, done - begun)


def _read(folder: Path) -> Seen | None:
    try:
        return decode((folder / FILE).read_bytes(), Seen)
    except (OSError, msgspec.DecodeError):
        return None
