"""When the lines of a run's steps were read from its growing log: a clock besides the one of the framework."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ..codec import decode
from ..errors import InfraError
from ..files import read_record, write_atomic
from ..model import Value
from ..toml_file import NOT_JSON
from .folder import Run

FILE = "arrivals.json"

MOST = 4096
"""Number of arrivals from which every second one is dropped."""

Pair = tuple[int, float]
"""Number of a step, and the time at which its line was read (epoch seconds)."""


class Arrivals(Value, frozen=True):
    """The arrivals of one job. A job whose output is buffered has few: those of the last line of each block."""

    job_id: str
    steps: tuple[Pair, ...] = ()


def note(run: Run, steps: Sequence[Pair]) -> None:
    """Store the arrivals of the run's current job. A read-only folder is ignored."""
    job = run.record.job
    if job is None or not steps:
        return
    with suppress(InfraError):
        write_atomic(run.path / FILE, msgspec.json.encode(Arrivals(job_id=job.job_id, steps=tuple(steps))))


def of(run: Run) -> tuple[Pair, ...]:
    """The arrivals of the run's current job; empty if nobody followed it."""
    job, found = run.record.job, _read(run.path)
    return found.steps if job is not None and found is not None and found.job_id == job.job_id else ()


def add(known: list[Pair], number: int, at: float) -> None:
    """Add an arrival; of very many, every second one is dropped."""
    known.append((number, at))
    if len(known) > MOST:
        del known[1:-1:2]


def _read(folder: Path) -> Arrivals | None:
    try:
        return decode(read_record(folder / FILE), Arrivals)
    except (OSError, *NOT_JSON):
        return None
