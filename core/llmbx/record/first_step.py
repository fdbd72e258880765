"""Time of a run's first step, observed by the process that follows the run, and stored in the run folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from ..codec import decode
from ..errors import InfraError
from ..files import read_record, write_atomic
from ..model import Value
from ..toml_file import NOT_JSON
from .folder import Run

FILE = "first_step.json"
CLOCK_TOLERANCE_S = 2.0
"""Tolerance for the order of two times in seconds: schedulers report whole seconds, and clocks of machines differ by
less.
"""


class Seen(Value, frozen=True):
    """The job of the first step, and the time its line appeared in the log (epoch seconds, late by up to one poll)."""

    job_id: str
    at: float


def note(run: Run, at: float) -> None:
    """Store the time of the first step; the first process to follow the job wins. A read-only folder is ignored."""
    job, known = run.record.job, _read(run.path)
    if job is None or (known is not None and known.job_id == job.job_id):
        return
    with suppress(InfraError):
        write_atomic(run.path / FILE, msgspec.json.encode(Seen(job_id=job.job_id, at=at)))


def seconds(run: Run, started: float | None, ended: float | None) -> float | None:
    """Seconds from the start of the ranks to the end of the first step; None if it was not observed.

    `started` and `ended` are the times of the ranks in epoch seconds. A line can be seen up to one poll late, possibly
    after the end.
    """
    job, found = run.record.job, _read(run.path)
    if job is None or found is None or started is None or found.job_id != job.job_id:
        return None
    return elapsed(started, min(found.at, ended or found.at))


def elapsed(begun: float | None, done: float | None) -> float | None:
    """Seconds between two clock times; None if one is unknown or the clock was set back in between.

    Times of different machines, or in whole seconds, may be out of order by `CLOCK_TOLERANCE_S`: the result is then 0.
    """
    if begun is None or done is None or done < begun - CLOCK_TOLERANCE_S:
        return None
    return max(0.0, done - begun)


def _read(folder: Path) -> Seen | None:
    try:
        return decode(read_record(folder / FILE), Seen)
    except (OSError, *NOT_JSON):
        return None
