"""Read logs with a parser: lines, the files of a run, or one file of records, as one `Log`."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ..logs.line import Line
from ..logs.lines import LineReader
from ..logs.skim import BLOCK, Skimmer
from ..logs.source_files import Reads, SourceFile, SourceFiles, pieces
from ..measure.window import begun_after, with_covers
from ..model import Damage
from ..plugins.log_parser import CheckedParser, as_checked
from ..record import arrivals
from ..run_files import RunFile
from .collector import Collector, Log

if TYPE_CHECKING:
    from ..logs.parser import LogParser
    from ..record.folder import Run

MISSING = (errno.ENOENT, errno.ENAMETOOLONG)
"""The errors of a file that does not exist, or whose name is too long to exist."""


def collect(parser: LogParser, lines: Iterable[str]) -> Log:
    """Parse clean `lines` (see `llmbx.logs.lines`) into a log."""
    checked, collector = as_checked(parser), Collector()
    checked.read(collector.numbered(enumerate(map(Line, lines), 1)), collector.add)
    return _closed(checked, collector)


def collect_file(parser: LogParser, path: Path | RunFile) -> Log:
    """Parse the log file at `path`; return an empty log if it does not exist or its name is too long to exist."""
    checked, collector, reader = as_checked(parser), Collector(path), LineReader()
    try:
        checked.read(collector.numbered(_lines(path, (), reader, checked)), collector.add)
    except OSError as error:
        if error.errno in MISSING:
            return Log()
        raise
    return _closed(checked, collector, reader.long_lines)


def collect_run(parser: LogParser, run: Run) -> Log:
    """Parse the log of a run, if it exists, and the sources in its folder that the parser declares."""
    checked, collector, reader = as_checked(parser), Collector(run.log_file), LineReader()
    if not run.log_file.exists() and not checked.sources:
        return Log()
    sources, reads = SourceFiles(run.path, checked), arrivals.reads_of(run)
    problems: list[str] = []
    try:
        lines = _lines(run.log_file, reads.get(arrivals.LOG, ()), reader, checked)
        checked.read(collector.numbered(lines), collector.add)
    except FileNotFoundError:
        pass
    except OSError as error:
        problems.append(f"{run.log_file.name}: cannot be read: {error.strerror}")
    sources.read_all(partial(collector.add, ordered=False), reads)
    return _closed(checked, collector, reader.long_lines, (*problems, *sources.faults()))


def collect_source(parser: LogParser, path: Path | RunFile, kind: str) -> Log:
    """Parse one file of a source by itself."""
    checked, collector = as_checked(parser), Collector()
    file = SourceFile(path, path.name, kind, checked)
    checked.over_ranks.expect(file.rank)
    file.read_again(checked, collector.add, ())
    file.close(checked, collector.add)
    return _closed(checked, collector, notes=file.faults())


def _closed(checked: CheckedParser, collector: Collector, long_lines: int = 0, notes: Iterable[str] = ()) -> Log:
    """The log after everything was read."""
    for record in checked.close():
        collector.add(record, ordered=False)
    damage = Damage(long_lines=long_lines, numbers=checked.odd_count, examples=tuple(checked.odd))
    log: Log = collector.log().replace(damage=damage, notes=(*notes, *checked.faults))
    return _with_covers(log, checked) if checked.prints is not None and checked.prints.interval_means else log


def _with_covers(log: Log, checked: CheckedParser) -> Log:
    """The log with the number of steps that each printed mean covers."""
    loaded = [event.facts.get("iteration") for event in log.events if event.kind == "checkpoint_loaded"]
    begun = begun_after((number for number in loaded if isinstance(number, int)), checked.first_step, log.steps)
    counted: Log = log.replace(steps=with_covers(log.steps, begun))
    return counted


Numbered = Iterator[tuple[int, Line]]


def _lines(path: Path | RunFile, reads: Reads, reader: LineReader, parser: CheckedParser) -> Numbered:
    """The lines of a log that matter, with the times at which it was read while it grew. Raises `OSError`."""
    return chain.from_iterable(_blocks(path, reads, reader, parser))  # each line passes one generator less


def _blocks(path: Path | RunFile, reads: Reads, reader: LineReader, parser: CheckedParser) -> Iterator[Numbered]:
    skimmer = Skimmer(parser)
    for chunk, at in pieces(path, reads, BLOCK):
        yield skimmer.lines(reader.block(chunk), at, path.name)
    yield skimmer.lines(reader.last_block(), None, path.name)
