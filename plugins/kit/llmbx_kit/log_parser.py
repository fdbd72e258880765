"""Check a log parser: it states the number of the first step, and no line makes it fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from llmbx.api import CUT, Line, LlmbxError, LogParser, SourceRecord, Step
from llmbx.api.contract import make_parser

from .reading import clean_lines
from .subject import Subject

AWKWARD = (
    "",
    " ",
    CUT,
    "\ufffd\ufffd",
    "nan",
    "step",
    "step 1/",
    "loss: nan",
    "x" * 70_000,
    '{"step": 1',
    "[rank0]:",
)
"""Lines that no framework writes: empty, cut, not UTF-8, very long."""

ODD: tuple[object, ...] = (None, True, "text", float("nan"), [1], {}, -1, 10**400)
"""Values that no source of records should have."""

SHOWN = 60
"""Characters of a line that are quoted in a problem."""

MOST = 200
"""Distinct lines of a log that are cut; more would take minutes."""


def parser_problems(subject: Subject) -> Iterator[str]:
    """Yield the problems of the plugin's parser and formats, also with the log of its framework."""
    framework = subject.plugins.framework(subject.name)
    parser = framework.parse_log(None)
    if parser.first_step not in (0, 1):
        expected = "expected the number of the first step (0 or 1)"
        yield f"the parser's first_step is {parser.first_step!r}, {expected}"
    lines = clean_lines(subject.log) if subject.log else []
    yield from _fed(parser, [*AWKWARD, *_cut(lines)])
    yield from _formats(subject)
    parser = framework.parse_log(None)
    records = [*itertools.chain.from_iterable(map(parser.feed, lines)), *parser.close()]
    numbers = [record.number for record in records if isinstance(record, Step)]
    if lines and not numbers:
        yield "the parser finds no step in the given log"
    if gap := missing_steps(numbers):
        yield gap
    yield from parser.faults


def missing_steps(numbers: Iterable[int]) -> str:
    """Return which steps of a log are missing; empty if their distance is always the same."""
    steps = sorted(set(numbers))
    distance = min((after - before for before, after in itertools.pairwise(steps)), default=1)
    expected = range(steps[0], steps[-1] + 1, distance) if steps else ()
    missing = [str(number) for number in expected if number not in steps]
    if not missing:
        return ""
    first, last = steps[0], steps[-1]
    return f"the parser finds steps {first} to {last} without {', '.join(missing[:5])}"


def _cut(lines: Iterable[str]) -> Iterator[str]:
    """Yield the first lines cut at every position: the start with llmbx's mark, and the rest."""
    for line in list(dict.fromkeys(line[:400] for line in lines))[:MOST]:
        for end in range(len(line)):
            yield line[:end] + CUT
            yield line[end:]


def _fed(parser: LogParser, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        try:
            list(parser.feed(Line(line)))
        except LlmbxError as error:
            yield f"the parser fails on the line {line[:SHOWN]!r}: {error}"
            return
    yield from _records_fed(parser)
    try:
        list(parser.close())
    except LlmbxError as error:
        yield f"the parser fails when the log ends: {error}"


def _records_fed(parser: LogParser) -> Iterator[str]:
    """Give the parser records of its sources with missing and odd values."""
    names = ("step", "loss", "time", *(measure.name for measure in parser.measures))
    records = [
        SourceRecord(source=source.glob, rank=rank, step=step, values=values)
        for source in parser.sources
        for rank, step in ((None, None), (1, 3))
        for values in (*(dict.fromkeys(names, value) for value in ODD), {})
    ]
    for record in records:
        try:
            list(parser.feed_record(record))
        except LlmbxError as error:
            yield f"the parser fails on the record {str(record.values)[:SHOWN]}: {error}"
            return


def _formats(subject: Subject) -> Iterator[str]:
    answers = subject.plugins.ask(subject.name, "parse_log", spec=None)
    formats = [*itertools.chain.from_iterable(answers)]
    for format_ in formats[1:]:  # the first one is that of the parser
        yield from _records_fed(make_parser(format_, f"plugin '{subject.name}'"))
    for format_ in formats:
        if count := int(format_.sniff("")):
            yield f"the sniffer of {format_.name!r} found {count} lines in an empty log"
    if subject.log and not any(int(format_.sniff(subject.log)) for format_ in formats):
        yield "no format recognizes the given log"
