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

USUAL_WIDTH_S = 2.0
"""Width of an arrival that an older version stored without one."""

MOST = 4096
"""Number of arrivals from which every second one is dropped."""

Pair = tuple[int, float]
"""Number of a step, and the time at which its line was read (epoch seconds)."""

Arrival = tuple[int, float, float]
"""Number of a step, the time at which its line was read, and the seconds since the read before, which had no such line.
"""


class Arrivals(Value, frozen=True):
    """The arrivals of one job. A job whose output is buffered has few: those of the last line of each block.

    `widths` are the seconds between the read of each line and the read before it.
    """

    job_id: str
    steps: tuple[Pair, ...] = ()
    widths: tuple[float, ...] = ()


def note(run: Run, found: Sequence[Arrival]) -> None:
    """Store the arrivals of the run's current job. A read-only folder is ignored."""
    job = run.record.job
    if job is None or not found:
        return
    stored = Arrivals(
        job_id=job.job_id,
        steps=tuple((number, at) for number, at, _ in found),
        widths=tuple(round(width, 3) for *_, width in found),
    )
    with suppress(InfraError):
        write_atomic(run.path / FILE, msgspec.json.encode(stored))


def of(run: Run) -> tuple[Arrival, ...]:
    """The arrivals of the run's current job; empty if nobody followed it."""
    job, found = run.record.job, _read(run.path)
    if job is None or found is None or found.job_id != job.job_id:
        return ()
    widths = found.widths if len(found.widths) == len(found.steps) else (USUAL_WIDTH_S,) * len(found.steps)
    return tuple((number, at, width) for (number, at), width in zip(found.steps, widths, strict=True))


def add(known: list[Arrival], number: int, at: float, width: float) -> None:
    """Add an arrival; of very many, every second one is dropped."""
    known.append((number, at, width))
    if len(known) > MOST:
        del known[1:-1:2]


def _read(folder: Path) -> Arrivals | None:
    try:
        return decode(read_record(folder / FILE), Arrivals)
    except (OSError, *NOT_JSON):
        return None
