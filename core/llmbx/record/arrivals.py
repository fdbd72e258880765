"""When the lines of a run's steps were read from its growing log: a clock besides the one of the framework.

The times are those of the follower's `SteadyClock`, which agrees with the wall clock when the following begins. All of
a file are of one process: another one that follows the run reads the log from its beginning, and writes its own file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ..codec import decode
from ..errors import InfraError
from ..model import Value
from ..run_files import RunFolder
from ..toml_file import NOT_JSON

if TYPE_CHECKING:
    from .folder import Run

FILE = "arrivals.json"

MOST = 4096
"""Number of arrivals from which every second one is dropped."""

Pair = tuple[int, float]
"""Number of a step, and the time at which its line was read (epoch seconds)."""

Arrival = tuple[int, float, float]
"""Number of a step, the time at which its line was read, and the seconds since the read before, which had no such line.
"""

Read = tuple[int, float | None]
"""Bytes of a file that had been read, and the time of the read (epoch seconds)."""

Setting = tuple[float, float]
"""A time at which the wall clock was found to be set, and the seconds by which it has differed since."""

SET_S = 0.5
"""Least difference between the clocks that is noted."""

LOG = ""
"""Name of the main log in `Arrivals.reads`."""


class Arrivals(Value, frozen=True):
    """The arrivals of one job. A job whose output is buffered has few: those of the last line of each block.

    `widths` are the seconds between the read of each line and the read before it. `reads` has, for the log and the
    other text files, how many bytes had been read when (None: at the first read); the log has the empty name.
    `clock_set` has an entry for each time at which the wall clock was set, with the seconds by which it differed from
    the times here afterwards.
    """

    job_id: str
    steps: tuple[Pair, ...] = ()
    widths: tuple[float, ...] = ()
    reads: dict[str, tuple[Read, ...]] = {}
    clock_set: tuple[Setting, ...] = ()


def note(
    run: Run, arrivals: Sequence[Arrival], reads: Mapping[str, Sequence[Read]] = {}, clock_set: Sequence[Setting] = ()
) -> None:
    """Store the arrivals of the run's current job. A read-only folder is ignored.

    Of very many `reads` some are dropped: what they covered counts as read with the next one.
    """
    job = run.record.job
    if job is None or not (arrivals or reads):
        return
    most = max(1, MOST // max(1, len(reads)))
    stored = Arrivals(
        job_id=job.job_id,
        steps=tuple((number, at) for number, at, _ in arrivals),
        widths=tuple(round(width, 3) for *_, width in arrivals),
        reads={name: tuple(_thinned(times, most)) for name, times in reads.items()},
        clock_set=tuple(clock_set),
    )
    with suppress(InfraError):
        run.files.write(FILE, msgspec.json.encode(stored))


def of(run: Run) -> tuple[Arrival, ...]:
    """The arrivals of the run's current job; empty if the run was not followed."""
    job, arrivals = run.record.job, _read(run.files)
    if job is None or arrivals is None or arrivals.job_id != job.job_id:
        return ()
    return tuple((number, at, width) for (number, at), width in zip(arrivals.steps, arrivals.widths, strict=False))


def reads_of(run: Run) -> dict[str, tuple[Read, ...]]:
    """When the text files of the run's current job were read while they grew, by name; empty if it was not followed."""
    job, arrivals = run.record.job, _read(run.files)
    return arrivals.reads if job is not None and arrivals is not None and arrivals.job_id == job.job_id else {}


def add_read(reads: list[Read], end: int, at: float | None) -> None:
    """Add a read; of very many, every second one is dropped."""
    reads.append((end, at))
    if len(reads) > MOST:
        del reads[1:-1:2]


def _thinned(reads: Sequence[Read], most: int) -> Sequence[Read]:
    interval = -(-len(reads) // most)
    return reads[(len(reads) - 1) % interval :: interval] if interval > 1 else reads


def add(arrivals: list[Arrival], number: int, at: float, width: float) -> None:
    """Add an arrival; of very many, every second one is dropped."""
    arrivals.append((number, at, width))
    if len(arrivals) > MOST:
        del arrivals[1:-1:2]


def add_setting(settings: list[Setting], at: float, set_by: float) -> None:
    """Add a setting of the wall clock if it differs from the last one; of very many, the first ones are kept."""
    if abs(set_by - (settings[-1][1] if settings else 0.0)) >= SET_S and len(settings) < MOST:
        settings.append((at, round(set_by, 3)))


def _read(folder: RunFolder) -> Arrivals | None:
    try:
        return decode(folder.read(FILE), Arrivals)
    except (OSError, *NOT_JSON):
        return None
