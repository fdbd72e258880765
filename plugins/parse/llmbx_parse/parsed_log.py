"""A log that was found and read: its file, its format, and what `llmbx parse` says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Failure, InfraError, LogFormat, Result, TrainingLog
from llmbx.api.verbs import LogReading, Plugins

from .find import LogFile, find_logs
from .formats import with_formats
from .unread import why


class ParsedLog(TrainingLog):
    """A log that was read as `llmbx parse` reads it."""

    def __init__(
        self,
        file: LogFile,
        reading: LogReading,
        format_: LogFormat | None,
        formats: Sequence[LogFormat],
    ) -> None:
        self.file = file
        self.reading = reading
        self.log_format = format_
        self.formats = formats
        self.path = file.path
        self.run_dir = file.run_dir
        self.format = format_.name if format_ else None
        self.steps = reading.steps

    @property
    def window(self) -> str:
        """The window of the recipe that its name and its format belong to."""
        return self.log_format.window(self.file.experiment) if self.log_format else "auto"

    @property
    def failure(self) -> Failure | None:
        """The first failure."""
        return self.reading.failure

    def lines(self) -> list[str]:
        """Return the lines of the log as they are."""
        return self.reading.lines()

    def last_words(self, rank: int) -> str | None:
        """Return the last line that a rank printed."""
        return self.reading.last_words(rank)

    @property
    def unread(self) -> str | None:
        """The reason why no step could be read from the file."""
        if self.file.kind is not None:
            return next(iter(self.reading.log.notes), None)
        return why(self.file.file, self.log_format, self.formats)

    def measure(self, window: str) -> Result:
        """Measure it over a window, and judge it as a row of `llmbx parse`."""
        from .rows import SUCCESS, row_of

        row = row_of(self, window)
        complete = row.status == SUCCESS
        return row.figures.replace(
            run_id=self.path,
            status="completed" if complete else "failed",
            cause=None if complete else row.reason,
            data_valid=row.valid,
            checks=row.checks,
            warnings=row.warnings,
        )

    @property
    def end(self) -> str | None:
        """The last step of a log without a run that does not reach the step that it announces.

        Also that of a log which announces none. Such a log is the only witness of its end.
        """
        reading = self.reading
        if reading.run is not None or not reading.log.steps or reading.ends_with_last_step:
            return None
        last = reading.log.steps[-1]
        return f"step {last.number}" + (f" of {last.total}" if last.total is not None else "")

    @property
    def is_wrong_format(self) -> bool:
        """Whether another format recognizes the log than the one that was chosen for it."""
        if self.file.format is None or self.file.kind is not None or not self.file.file.is_file():
            return False
        recognized = LogFormat.recognize(self.file.file, self.formats)
        if recognized is None or self.format is None:
            return False
        return recognized.name != self.format


def parse_file(file: LogFile, formats: Sequence[LogFormat], plugins: Plugins) -> ParsedLog | None:
    """Read a log. None for a file of a folder that is not one.

    Files of unknown format that were found in a folder are skipped, unless they belong to a run or
    their name starts with log. Raises `InfraError` if the file cannot be read.
    """
    format_ = _format(file, formats)
    is_log = file.run_dir is not None or file.named or file.file.name.startswith("log")
    if format_ is None and not is_log:
        return None
    reading = LogReading.read(file.file, plugins, format_, file.kind, file.run_dir)
    return ParsedLog(file, reading, format_, formats)


def read_logs(path: Path) -> list[ParsedLog]:
    """Read the log at a path, or the logs in a folder; `-` is standard input.

    Raises `UsageError` for what is not a file, folder or pipe, and for a file of records that not
    exactly one format declares; `InfraError` if a log cannot be read.
    """
    from llmbx.api.verbs import load_plugins

    plugins = load_plugins()
    formats = plugins.log_formats()
    files = with_formats(find_logs([path]), formats, plugins, None)
    logs = (parse_file(file, formats, plugins) for file in files)
    return [log for log in logs if log is not None]


def _format(file: LogFile, formats: Sequence[LogFormat]) -> LogFormat | None:
    """The format that was chosen for the file, else the one that recognizes it."""
    if file.format is not None:
        return next((format_ for format_ in formats if format_.name == file.format), None)
    try:
        return LogFormat.recognize(file.file, formats) if file.file.exists() else None
    except OSError as error:
        raise InfraError(f"{file.file}: cannot be read: {error.strerror}") from None
