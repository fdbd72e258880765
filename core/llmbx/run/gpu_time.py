"""GPU-hours of a run: the time of all its attempts, also of those that were lost with their node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..clock import elapsed, lasted_s
from ..errors import LlmbxError
from ..launchers.exits import read_exit, read_starts
from ..model import RunSpec, Value
from ..model.run_folder import batch_name
from ..record.attempts import FOLDER, earlier_numbers
from ..record.folder import RESULT, Run, read_result
from ..run_files import RunFolder


class GpuTime(Value, frozen=True):
    """GPU-hours of all attempts, None if unknown, and what a reader must know about them."""

    hours: float | None
    warnings: tuple[str, ...] = ()


class Spent(Value, frozen=True):
    """Seconds of one attempt, None if unknown. `until_output`: its end is the time of its last output."""

    number: int
    seconds: float | None
    started: bool = True
    until_output: bool = False


def gpu_time(run: Run, total_s: float | None) -> GpuTime:
    """The GPU-hours of an ended run whose last attempt took `total_s` seconds (None: its end was not recorded).

    An attempt whose end was not recorded, because its node failed, counts until its last output, with a warning. If
    nothing is known about the time of an attempt, the sum is unknown. None without GPUs, or if no attempt started.
    """
    spec = run.record.spec
    if spec.gpu_type == "cpu":
        return GpuTime(hours=None)
    spent = list(_attempts(run.path, spec, total_s, earlier_numbers(run.files)))
    warnings = [
        f"the end of attempt {attempt.number} was not recorded: its GPU-hours count until its last output"
        for attempt in spent
        if attempt.until_output
    ]
    unknown = [attempt.number for attempt in spent if attempt.seconds is None]
    if len(spent) > 1 and unknown:
        numbers = ", ".join(map(str, unknown))
        return GpuTime(hours=None, warnings=(f"GPU-hours are unknown: attempt {numbers} recorded no time",))
    if unknown or not any(attempt.started for attempt in spent):
        return GpuTime(hours=None)
    seconds = sum(attempt.seconds or 0.0 for attempt in spent)
    return GpuTime(hours=spec.gpus * seconds / 3600, warnings=tuple(warnings))


def _attempts(run_dir: Path, spec: RunSpec, total_s: float | None, earlier: list[int]) -> Iterator[Spent]:
    """Every attempt, those with the numbers `earlier` first, and the last one at the end.

    A scheduler that requeues a job starts its script again: the output of all these starts is in one file, which stays
    with the last of them.
    """
    if not earlier and total_s is not None:
        yield Spent(number=0, seconds=total_s)
        return
    requeued: list[tuple[int, Path]] = []
    for number, folder in [*((number, run_dir / FOLDER / str(number)) for number in earlier), (len(earlier), run_dir)]:
        last, output = folder == run_dir, RunFolder(path=folder).file(batch_name(spec))
        starts = [start.at for start in read_starts(output)]
        if not last and not output.exists() and not RunFolder(path=folder).file(RESULT).exists():
            requeued.append((number, folder))
            continue
        for index, (earlier_number, earlier_folder) in enumerate(requeued):
            begun = starts[index] if index < len(starts) else None
            yield _requeued(earlier_number, earlier_folder, begun)
        seconds = total_s if last else _recorded(folder)
        if seconds is None and not starts and not output.exists():
            yield Spent(number=number, seconds=0.0, started=False)
        else:
            yield _spent(number, folder, starts[-1] if len(starts) > len(requeued) else None, seconds)
        requeued = []


def _requeued(number: int, folder: Path, begun: float | None) -> Spent:
    """An attempt whose files the script of the next start moved away."""
    end = read_exit(folder)
    return _spent(number, folder, begun, lasted_s(end.status()) if end else None)


def _recorded(folder: Path) -> float | None:
    with suppress(LlmbxError):  # damaged
        result = read_result(folder)
        return result.timing.total_s if result else None
    return None


def _spent(number: int, folder: Path, begun: float | None, recorded: float | None) -> Spent:
    if recorded is not None and recorded >= 0:
        return Spent(number=number, seconds=recorded)
    seconds = elapsed(begun, RunFolder(path=folder).last_written("*.out"))
    return Spent(number=number, seconds=seconds, until_output=seconds is not None)
