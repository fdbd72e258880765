"""A plugin's log grammar behind a wall: what it raises, or yields that is no record, is an error that names it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import asdict, astuple, fields

from ..codec import convert, validator
from ..errors import LlmbxError, PluginError
from ..logs.parser import LogFormat, LogParser, Record
from ..model import Event, Step
from .isolation import ESCAPES, failure, guarded

ALL, SOME = 4096, 16
"""So many steps at the beginning of a log are looked into, and then one in so many."""


class Grammar:
    """A `LogParser` that only yields whole records. `owner` ("plugin 'toy'") is named in its errors."""

    def __init__(self, parser: LogParser, owner: str) -> None:
        self._parser = parser
        self._owner = owner

    @property
    def first_step(self) -> int | None:
        """The number that the framework's log gives the first step, where the grammar says so."""
        number = getattr(self._parser, "first_step", None)
        return number if isinstance(number, int) else None

    def feed(self, line: str) -> list[Record]:
        """What one clean line makes known."""
        found: list[Record] = []
        self.read((line,), found.append)
        return found

    def read(self, lines: Iterable[str], take: Callable[[Record], None]) -> None:
        """Give `take` what clean lines make known. Raises `PluginError`; what `lines` raises passes.

        It is written for logs of millions of lines: a line costs nothing beyond its grammar. To look into a step costs
        0.3 to 0.9 µs, so that of a log with very many only some are looked into after the first `ALL`.
        """
        feed, tuple_of, check, seen = self._parser.feed, astuple, _check_step, 0
        for line in lines:
            try:
                for record in feed(line):
                    if record.__class__ is Step:
                        seen += 1
                        if seen < ALL or not seen % SOME:
                            check(tuple_of(record))  # `_check`, without the call
                    else:
                        _check(record)
                    take(record)
            except LlmbxError:
                raise
            except msgspec.ValidationError:
                raise self._wrong("feed", record) from None
            except ESCAPES as error:
                raise self._failure("feed", error) from error

    def close(self) -> list[Record]:
        """What is left when the log ends."""
        found: list[Record] = []
        try:
            for record in self._parser.close():
                _check(record)
                found.append(record)
        except LlmbxError:
            raise
        except msgspec.ValidationError:
            raise self._wrong("close", record) from None
        except ESCAPES as error:
            raise self._failure("close", error) from error
        return found

    def _failure(self, method: str, error: BaseException) -> PluginError:
        return failure(f"{self._owner}: {method} of its log parser failed", error)

    def _wrong(self, method: str, record: object) -> PluginError:
        return PluginError(f"{self._owner}: {method} of its log parser yielded {_fault(record)}")


def _mirror(kind: type[Step] | type[Event]) -> type[msgspec.Struct]:
    """A record of the same members that is made from a plain tuple, with every type checked."""
    members = [(field.name, field.type) for field in fields(kind)]
    return msgspec.defstruct(kind.__name__, members, array_like=True, gc=False)


_check_step, _check_event = validator(_mirror(Step)), validator(_mirror(Event))


def _check(record: object) -> None:
    """Raises `msgspec.ValidationError` for what is no Step or Event with all its members of their types."""
    if isinstance(record, Step):
        _check_step(astuple(record))
    elif isinstance(record, Event):
        _check_event(astuple(record))
    else:
        raise msgspec.ValidationError


def _fault(record: object) -> str:
    """What is wrong with a record, in words."""
    from .validation import named, told

    if not isinstance(record, Step | Event):
        return f"{named(record)}, expected Steps and Events"
    try:
        convert(asdict(record), type(record))
    except msgspec.ValidationError as error:
        return f"a wrong {type(record).__name__}: {told(error)}"
    return f"a wrong {type(record).__name__}"


def as_grammar(parser: LogParser) -> Grammar:
    """The parser behind its wall; one that no plugin gave is named after its class."""
    return parser if isinstance(parser, Grammar) else Grammar(parser, f"grammar {type(parser).__name__}")


def walled(format_: LogFormat, owner: str) -> LogFormat:
    """A plugin's format with its functions behind the wall. A sniffer that fails is told once, and sees no line."""
    title = f"{owner}: log format '{format_.name}'"

    def parser() -> LogParser:
        with guarded(f"{title} gives no parser"):
            return Grammar(format_.parser(), owner)

    def window(experiment: str) -> str:
        with guarded(f"{title} gives no window"):
            return str(format_.window(experiment))

    return LogFormat(format_.name, format_.title, _sniffer(format_.sniff, title), parser, window, format_.unit)


def _sniffer(sniff: Callable[[str], int], title: str) -> Callable[[str], int]:
    failed = False

    def seen(text: str) -> int:
        nonlocal failed
        try:
            with guarded(f"{title} cannot tell its logs"):
                return 0 if failed else int(sniff(text))
        except PluginError as error:
            failed = True
            print(f"llmbx: {error}; going on without it", file=sys.stderr)
            return 0

    return seen
