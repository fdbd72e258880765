"""Check a log parser: it states the number of the first step, and no line makes it fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from ..errors import LlmbxError
from ..logs.lines import CUT
from ..logs.parser import Record
from ..model import Event, SourceRecord, Step
from ..plugins.log_parser import CheckedParser
from ..plugins.manager import Plugins
from .reading import clean_lines
from .typed import ill_typed

AWKWARD = ("", " ", CUT, "\ufffd\ufffd", "nan", "step", "step 1/", "loss: nan", "x" * 70_000, '{"step": 1', "[rank0]:")
"""Lines that no framework writes: empty, cut, not UTF-8, very long."""

SHOWN = 60
"""Characters of a line that are quoted in a problem."""

MOST = 200
"""Distinct lines of a log that are cut; more would take minutes."""


def parser_problems(name: str, plugins: Plugins, log: str | None) -> Iterator[str]:
    """Yield the problems of the plugin's parser and formats. `log` is the text of a log that it must read."""
    parser = plugins.framework(name).parse_log(None)
    if parser.first_step not in (0, 1):
        yield f"the parser's first_step is {parser.first_step!r}, expected the number of the first step (0 or 1)"
    lines = clean_lines(log) if log else []
    yield from _fed(plugins, name, [*AWKWARD, *_cut(lines)])
    yield from _formats(name, plugins, log)
    reading = plugins.framework(name).parse_log(None)
    numbers = [record.number for record in _records(reading, lines) if isinstance(record, Step)]
    if log and not numbers:
        yield "the parser finds no step in the given log"
    if gap := missing_steps(numbers):
        yield gap
    yield from reading.faults


def missing_steps(numbers: Iterable[int]) -> str:
    """Return which steps are missing between those of a log; empty if their distance is always the same."""
    steps = sorted(set(numbers))
    apart = min((after - before for before, after in itertools.pairwise(steps)), default=1)
    lost = sorted({*range(steps[0], steps[-1] + 1, apart)} - {*steps}) if steps else []
    if not lost:
        return ""
    return f"the parser finds steps {steps[0]} to {steps[-1]} without {', '.join(map(str, lost[:5]))}"


def _cut(lines: Iterable[str]) -> Iterator[str]:
    """Yield the first lines cut at every position: the start with llmbx's mark for cut lines, and the rest."""
    for line in list(dict.fromkeys(line[:400] for line in lines))[:MOST]:
        for end in range(len(line)):
            yield line[:end] + CUT
            yield line[end:]


def _fed(plugins: Plugins, name: str, lines: Iterable[str]) -> Iterator[str]:
    parser = plugins.framework(name).parse_log(None)
    for line in lines:
        try:
            for record in parser.feed(line):
                yield from _record(record, line)
        except Exception as error:
            yield f"the parser fails on the line {line[:SHOWN]!r}: {type(error).__name__}: {error}"
            return
    yield from _records_fed(parser)
    try:
        list(parser.close())
    except Exception as error:
        yield f"the parser fails when the log ends: {type(error).__name__}: {error}"


def _records_fed(parser: CheckedParser) -> Iterator[str]:
    """Give the parser records of its sources with missing and odd values."""
    names = ("step", "loss", "time", *(measure.name for measure in parser.measures))
    odd: tuple[object, ...] = (None, True, "text", float("nan"), [1], {}, -1, 10**400)
    records = [
        SourceRecord(source=source.glob, rank=rank, step=step, values=dict.fromkeys(names, value))
        for source in parser.sources
        for rank, step in ((None, None), (1, 3))
        for value in odd
    ]
    for record in (*records, *(SourceRecord(source=source.glob) for source in parser.sources)):
        try:
            parser.feed_record(record)
        except LlmbxError as error:
            yield f"the parser fails on the record {str(record.values)[:SHOWN]}: {error}"
            return


def _record(record: Record, line: str) -> Iterator[str]:
    if not isinstance(record, Step | Event):
        yield f"the parser returned a {type(record).__name__} for {line[:SHOWN]!r}, expected a Step or an Event"
    else:
        yield from ill_typed(record, type(record), "the parser")


def _records(parser: CheckedParser, lines: Iterable[str]) -> Iterator[Record]:
    for line in lines:
        yield from parser.feed(line)
    yield from parser.close()


def _formats(name: str, plugins: Plugins, log: str | None) -> Iterator[str]:
    formats = [format_ for found in plugins.ask(name, "parse_log", spec=None) for format_ in found]
    seen = 0
    for format_ in formats[1:]:  # the first one is that of the parser
        yield from _records_fed(CheckedParser(format_.parser(), f"format {format_.name!r}"))
    for format_ in formats:
        for text in ("", log or ""):
            count = format_.sniff(text)
            if type(count) is not int:
                yield f"the sniffer of {format_.name!r} returned a {type(count).__name__}, expected a number of lines"
            elif not text and count:
                yield f"the sniffer of {format_.name!r} found {count} lines in an empty log"
            seen = max(seen, int(count))
    if log and formats and not seen:
        yield "no format recognizes the given log"
