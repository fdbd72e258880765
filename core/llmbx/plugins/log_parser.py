"""Guard a plugin's log parser: its exceptions, and records that are not valid, become errors that name it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec.structs import asdict, astuple, fields

from ..codec import convert, validator
from ..errors import LlmbxError, PluginError
from ..logs.lines import Line
from ..logs.over_ranks import OverRanks
from ..logs.parser import LogParser, Record
from ..logs.source_reader import LINES, FindReader, no_reader
from ..model import Event, Measure, Prints, Source, SourceRecord, Step
from .calls import PLUGIN_EXCEPTIONS, Call, failure
from .descriptions import describe_error, describe_type
from .measures import MeasureFaults, read_declared
from .plausible import LIMITS, sensible

T = TypeVar("T")
Take = Callable[[Record], None]

MAX_ODD = 8
"""Maximum number of lines about values that cannot be true that are kept."""


class CheckedParser(LogParser):
    """A log parser that yields only valid records. Its errors start with `owner` ("plugin 'toy'").

    Numbers that cannot be true are None in the records (`plausible`). `odd_count` is their number, `odd` has a
    line for each of the first `MAX_ODD`.

    Values of measures that are not declared, or cannot be true, are left out; `faults` has a line for each measure.
    Raises `PluginError` for an invalid declaration.
    """

    def __init__(self, parser: LogParser, owner: str, source_reader: FindReader = no_reader) -> None:
        self._parser = parser
        self._owner = owner
        self.source_reader = source_reader
        self.odd_count = 0
        self.odd: list[str] = []
        self.first_step = parser.first_step if isinstance(parser.first_step, int) else None
        self.prints = parser.prints if isinstance(parser.prints, Prints) else None
        self.signs = _read_signs(parser.signs, owner)
        self.measures = read_declared(parser.measures, "measures", Measure, owner)
        self.sources = read_declared(parser.sources, "sources", Source, owner)
        self.over_ranks = OverRanks(self.measures)
        self._measure_faults = MeasureFaults(self.measures, owner)
        self._combines = any(measure.over_ranks for measure in self.measures)
        if any(source.kind != LINES for source in self.sources):
            self._require_feed_record()

    @property
    def faults(self) -> list[str]:
        """One line for each measure with values that were left out."""
        return [*self._measure_faults.lines(), *self.over_ranks.problems()]

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether the parser must read the next line whatever it says."""
        return bool(self._parser.waits)

    def feed(self, line: str) -> list[Record]:
        """Return the records of one clean line."""
        records: list[Record] = []
        self.read((Line(line),), records.append)
        return records

    def feed_record(self, record: SourceRecord) -> list[Record]:
        """Return the records of one record of a source."""
        records: list[Record] = []
        self.read_records((record,), records.append)
        return records

    def read(self, lines: Iterable[Line], take: Take) -> None:
        """Call `take` with each record of clean lines. Raises `PluginError`; exceptions of `lines` are not caught."""
        self._read("feed", self._parser.feed, lines, take)

    def read_records(self, records: Iterable[SourceRecord], take: Take) -> None:
        """The same for the records of a source."""
        self._require_feed_record()
        self._read("feed_record", self._parser.feed_record, records, take)

    def _require_feed_record(self) -> None:
        if type(self._parser).feed_record is LogParser.feed_record:
            raise PluginError(f"{self._owner}: its log parser has no method feed_record, which sources of records need")

    def _combining(self, call: Call, take: Take) -> Take:
        """Keep the values that are combined over the ranks until the end."""

        def split(record: Record) -> None:
            item = call.item
            rank = item.rank if isinstance(item, Line | SourceRecord) else None
            take(self.over_ranks.split(record, rank) if isinstance(record, Step) else record)

        return split

    def _read(self, method: str, feed: Callable[[T], Iterable[Record]], items: Iterable[T], take: Take) -> None:
        """The loop is written for logs of millions of lines and adds nothing to the parser's own time per line.

        Validating a step takes 0.3 to 0.9 µs, one with measures or with a value that cannot be true several µs.
        """
        tuple_of = astuple
        with Call(self._owner, f"{method} of its log parser", of_items=True) as call:
            if self._combines:
                take = self._combining(call, take)
            for item in items:
                call.item = item
                try:
                    for record in feed(item):
                        if record.__class__ is Step and not record.measures and _valid_step(tuple_of(record)):
                            take(record)
                        else:
                            self._check(method, record, take)
                except LlmbxError:
                    raise
                except PLUGIN_EXCEPTIONS as error:
                    raise failure(f"{self._owner}: {method} of its log parser failed", error) from error
                call.item = None

    def close(self) -> list[Record]:
        """Return the records that are left at the end of the log."""
        records: list[Record] = []
        with Call(self._owner, "close of its log parser"):
            for record in self._parser.close():
                self._check("close", record, records.append)
        return [*records, *self.over_ranks.steps()]

    def _check(self, method: str, record: Record, take: Take) -> None:
        """Pass on the record without the numbers that cannot be true. Raises `PluginError` if it is invalid."""
        if isinstance(record, Step) and isinstance(record.measures, dict):
            record = self._measure_faults.without_faulty(record)
        if problem := _problem(record):
            raise PluginError(f"{self._owner}: {method} of its log parser yielded {problem}")
        possible, odd = sensible(record)
        self.odd_count += len(odd)
        self.odd += odd[: MAX_ODD - len(self.odd)]
        if possible is not None:
            take(_plain(possible) if isinstance(possible, Event) else possible)


def _read_signs(signs: object, owner: str) -> tuple[str, ...] | None:
    """What a parser declares as its signs. Raises `PluginError` if it is invalid."""
    if signs is None:
        return None
    if isinstance(signs, tuple | list) and all(isinstance(sign, str) for sign in signs):
        return tuple(signs)
    raise PluginError(f"{owner}: signs of its log parser is {describe_type(signs)}, expected a tuple of texts")


def _limited(name: str, type_: Any) -> Any:
    """The type of a step's member with its `LIMITS`."""
    if name not in LIMITS:
        return type_
    low, high, _ = LIMITS[name]
    whole = int in (type_, *get_args(type_))
    bounded = (
        Annotated[int, msgspec.Meta(ge=int(low), le=int(high))]
        if whole
        else Annotated[float, msgspec.Meta(ge=low, le=high)]
    )
    return bounded if type_ is int else bounded | None


_convert_step = validator(
    msgspec.defstruct(
        "Step", [(field.name, _limited(field.name, field.type)) for field in fields(Step)], array_like=True, gc=False
    )
)
"""Convert a step's members, as a plain tuple; this is the fastest way to validate them."""


def _valid_step(members: tuple[object, ...]) -> bool:
    """Whether a step's members are of the right types and can be true; False also for nan and inf."""
    try:
        _convert_step(members)
    except msgspec.ValidationError:
        return False
    return True


def _problem(record: object) -> str | None:
    """Describe what is wrong with the types of a record, or None."""
    if not isinstance(record, Step | Event):
        return f"{describe_type(record)}, expected Steps and Events"
    try:
        convert(asdict(record), type(record))
    except msgspec.ValidationError as error:
        return f"an invalid {type(record).__name__}: {describe_error(error)}"
    return None


def _plain(event: Event) -> Event:
    """The event with plain strings: a `Line` cannot be stored."""
    facts = {str(name): str(fact) if isinstance(fact, str) else fact for name, fact in event.facts.items()}
    return event.replace(kind=str(event.kind), text=str(event.text), facts=facts)


def as_checked(parser: LogParser) -> CheckedParser:
    """Guard the parser unless it is guarded already; errors of a parser without a plugin name its class."""
    return parser if isinstance(parser, CheckedParser) else CheckedParser(parser, f"parser {type(parser).__name__}")
