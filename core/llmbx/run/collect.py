"""Read logs with a parser: lines, the files of a run, or one file of records, as one `Log`."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from pathlib import Path

from ..checks.base import Damage
from ..logs.lines import LineReader, read_lines
from ..logs.parser import LogParser
from ..logs.sources.files import Reads, SourceFile, SourceFiles, Take, as_lines, pieces
from ..model.measure import SourceKind
from ..plugins.log_parser import MAX_ODD, CheckedParser, as_checked
from ..record import arrivals
from ..record.folder import Run
from ..run_files import RunFile
from .collector import Collector, Log

MISSING = (errno.ENOENT, errno.ENAMETOOLONG)
"""The errors of a file that does not exist, or whose name is too long to exist."""


def collect(parser: LogParser, lines: Iterable[str]) -> Log:
    """Parse clean `lines` (see `llmbx.logs.lines`) into a log."""
    return _collected(as_checked(parser), lambda checked, take: checked.read(lines, take))


def collect_file(parser: LogParser, path: Path | RunFile) -> Log:
    """Parse the log file at `path`; return an empty log if it does not exist or its name is too long to exist."""
    reader = LineReader()
    try:
        log = _collected(as_checked(parser), lambda checked, take: _read_file(checked, path, (), reader, take))
    except OSError as error:
        if error.errno in MISSING:
            return Log()
        raise
    found: Log = log.replace(damage=log.damage.replace(long_lines=reader.long_lines))
    return found


def collect_run(parser: LogParser, run: Run) -> Log:
    """Parse the log of a run, if it exists, and the sources in its folder that the parser declares."""
    if not run.log_file.exists() and not as_checked(parser).sources:
        return Log()
    reader, checked, reads = LineReader(), as_checked(parser), arrivals.reads_of(run)
    sources = SourceFiles(run.path, checked)

    problems: list[str] = []

    def read(checked: CheckedParser, take: Take) -> None:
        try:
            _read_file(checked, run.log_file, reads.get(arrivals.LOG, ()), reader, take)
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(f"{run.log_file.name}: cannot be read: {error.strerror}")
        sources.read_all(take, reads)

    log = _collected(checked, read)
    damage, notes = log.damage.replace(long_lines=reader.long_lines), (*problems, *sources.faults(), *log.notes)
    found: Log = log.replace(damage=damage, notes=notes)
    return found


def collect_source(parser: LogParser, path: Path | RunFile, kind: SourceKind) -> Log:
    """Parse one file of a source by itself."""
    file = SourceFile(path, path.name, kind)

    def read(checked: CheckedParser, take: Take) -> None:
        checked.over_ranks.expect(file.rank)
        file.read_again(checked, take, ())
        file.close(checked, take)

    log = _collected(as_checked(parser), read)
    found: Log = log.replace(notes=(*file.faults(), *log.notes))
    return found


def _collected(checked: CheckedParser, read: Callable[[CheckedParser, Take], None]) -> Log:
    collector = Collector()
    read(checked, collector.add)
    for record in checked.close():
        collector.add(record)
    log, strays = collector.log(), collector.strays
    odd = (*checked.odd, *strays)[:MAX_ODD]
    damage = Damage(numbers=checked.odd_count + len(strays), examples=odd)
    found: Log = log.replace(damage=damage, notes=tuple(checked.faults))
    return found


def _read_file(checked: CheckedParser, path: Path | RunFile, reads: Reads, reader: LineReader, take: Take) -> None:
    """Read the log with the times at which it was read while it grew. Raises `OSError`."""
    if not checked.wants_lines:
        checked.read(read_lines(path, reader=reader), take)
        return
    for chunk, at in pieces(path, reads):
        checked.read_lines(as_lines(reader.feed(chunk), path.name, at), take)
    checked.read_lines(as_lines(reader.close(), path.name, None), take)
