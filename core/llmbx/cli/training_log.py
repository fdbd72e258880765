"""A training log for the verbs of plugins: found, recognized, read once, and measured over any window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import InfraError
from ..logs.find import find_logs
from ..logs.origin import last_words
from ..model import Result, Step
from ..model.failure import Echo, Failure
from ..plugins.manager import Plugins
from ..run.infrastructure import LOST
from .parse_reading import Reading, read
from .parse_rows import SUCCESS, measure_log
from .parse_sources import with_formats


class TrainingLog:
    """A log that was read as `llmbx parse` reads it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.path: str = reading.file.path
        """The path as the user named it, or of a file in the folder that the user named."""
        self.run_dir: str | None = reading.file.run_dir
        """The folder of the run of llmbx that wrote it, if any."""
        self.format: str | None = reading.format.name if reading.format else None
        """The name of its format; None if no format recognizes it."""
        self.steps: Sequence[Step] = reading.steps
        """All steps."""

    @staticmethod
    def read(path: Path, plugins: Plugins) -> list[TrainingLog]:
        """Read the log at a path, or the logs in a folder; `-` is standard input.

        Raises `UsageError` for what is not a file, folder or pipe, and for a file of records that not exactly one
        format declares; `InfraError` if a log cannot be read.
        """
        formats = plugins.log_formats()
        found = (read(log, formats, plugins) for log in with_formats(find_logs([path]), formats, plugins, None))
        return [TrainingLog(reading) for reading in found if reading is not None]

    @property
    def window(self) -> str:
        """The window of the recipe that its name and its format belong to."""
        reading = self._reading
        return reading.format.window(reading.file.experiment) if reading.format else "auto"

    @property
    def failure(self) -> Failure | None:
        """The first failure that the log tells of; of a run that llmbx started, that of its result, if it failed.

        What ended such a run may be in no log: a time limit, a lost node.
        """
        log, result = self._reading.log, self._reading.result
        if result is None:
            return log.failure if self._reading.ends_with_last_step else log.failure_of_failed
        if result.cause is None:
            return None
        found = log.failure_of_failed
        if found is not None and found.cause[:200] in result.cause:
            known: Failure = found.replace(
                rank=result.cause_rank, ranks=result.cause_ranks, node=result.cause_node, doubt=result.doubt
            )
            return known
        return Failure(
            cause=result.cause,
            kind=result.status,
            rank=result.cause_rank,
            ranks=result.cause_ranks,
            node=result.cause_node,
            doubt=result.doubt,
            infrastructure=True if result.status in LOST or _of_one_node(result) else None,
            echoes=_told(found),
        )

    def lines(self) -> list[str]:
        """The lines of the log as they are, to tell where one is; none of a run that wrote no log. Raises `OSError`."""
        if self.run_dir is not None and not self._reading.file.file.exists():
            return []
        with self._reading.file.file.open("rb") as file:
            return file.read().decode("utf-8", "replace").split("\n")

    def last_words(self, rank: int) -> str | None:
        """The last line that a rank printed; None without labels of ranks. Raises `OSError`."""
        return last_words(self.lines(), rank)

    @property
    def unread(self) -> str | None:
        """Why no step could be read, in one line."""
        return self._reading.unread

    def measure(self, window: str) -> Result:
        """Measure it over a window. The result has what the log says: its path as `run_id`, and no workload."""
        row = measure_log(self._reading, window)
        complete = row.status == SUCCESS
        figures = {name: getattr(row.figures, name) for name in row.figures.__struct_fields__}
        return Result(
            run_id=self.path,
            status="completed" if complete else "failed",
            cause=None if complete else row.reason,
            data_valid=row.valid,
            checks=row.checks,
            **{**figures, "warnings": row.warnings},
        )


def _of_one_node(result: Result) -> bool:
    """Whether the job could not start on a node; another one may run it."""
    return result.exit_code == InfraError.exit_code and result.cause_node is not None


def _told(found: Failure | None) -> tuple[Echo, ...]:
    """What a log tells of a failure that is not in it."""
    if found is None:
        return ()
    others = {echo.rank for echo in found.echoes}
    ranks: list[int | None] = [rank for rank in found.ranks if rank not in others]
    return (*(Echo(text=found.cause, rank=rank, time=found.time) for rank in ranks or [found.rank]), *found.echoes)
