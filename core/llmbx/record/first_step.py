"""Time of a run's first step, observed by the process that follows the run, and stored in the run folder."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ..clock import boot_id, elapsed, since_boot_s
from ..codec import decode
from ..errors import InfraError
from ..model import JobStatus, Value
from ..run_files import RunFolder
from ..toml_file import NOT_JSON

if TYPE_CHECKING:
    from .folder import Run

FILE = "first_step.json"


class Seen(Value, frozen=True):
    """The job of the first step, and the time its line appeared in the log (epoch seconds, late by up to one poll).

    `since_boot_s` is the same time in seconds since the boot `boot_id` of the machine that followed the run.
    """

    job_id: str
    at: float
    since_boot_s: float | None = None
    boot_id: str = ""


def note(run: Run, at: float) -> None:
    """Store the time of the first step; the first process to follow the job wins. A read-only folder is ignored."""
    job, earlier = run.record.job, _read(run.files)
    if job is None or (earlier is not None and earlier.job_id == job.job_id):
        return
    seen = Seen(job_id=job.job_id, at=at, since_boot_s=since_boot_s(), boot_id=boot_id())
    with suppress(InfraError):
        run.files.write(FILE, msgspec.json.encode(seen))


def seconds(run: Run, status: JobStatus) -> float | None:
    """Seconds from the start of the ranks, whose job has this status, to the end of the first step.

    None if it was not observed. A line can be seen up to one poll late, possibly after the end. The wall clock is used
    only if the ranks started on another machine than the one that followed them, or if their start is not recorded by
    the other clock.
    """
    job, seen = run.record.job, _read(run.files)
    if job is None or seen is None or status.started is None or seen.job_id != job.job_id:
        return None
    ranks = status.since_boot
    if ranks is not None and seen.since_boot_s is not None and ranks.boot_id and ranks.boot_id == seen.boot_id:
        return elapsed(ranks.started, min(seen.since_boot_s, ranks.ended))
    return elapsed(status.started, min(seen.at, status.ended or seen.at))


def _read(folder: RunFolder) -> Seen | None:
    try:
        return decode(folder.read(FILE), Seen)
    except (OSError, *NOT_JSON):
        return None
