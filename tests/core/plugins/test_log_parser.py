"""Wrapped log parsers: their exceptions and invalid records are reported with the plugin's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from llmbx.errors import PluginError, UsageError
from llmbx.logs.lines import Line
from llmbx.logs.parser import LogFormat, LogParser
from llmbx.model import Event, Step
from llmbx.plugins.guards import guard_format
from llmbx.plugins.log_parser import CheckedParser
from llmbx.run.collect import collect


class Saying(LogParser):
    """A log parser that returns what a test wants."""

    def __init__(self, feed: Callable[[], Any], close: Callable[[], Any] = list) -> None:
        self._feed, self._close = feed, close

    def feed(self, line: str) -> Any:
        return self._feed()

    def close(self) -> Any:
        return self._close()


def fails(error: BaseException) -> Callable[[], Any]:
    def raising() -> Iterator[Step]:
        yield Step(number=1)
        raise error

    return raising


@pytest.mark.parametrize(
    ("feed", "says"),
    [
        (fails(KeyError("no step")), "feed of its log parser failed: KeyError: 'no step'"),
        (fails(SystemExit(3)), "feed of its log parser failed: SystemExit: 3"),
        (lambda: None, "feed of its log parser failed: TypeError"),
        (lambda: Step(number=1), "feed of its log parser failed: TypeError"),
        (lambda: [{"number": 1}], "yielded a dict, expected Steps and Events"),
        (lambda: [Step(number="1")], "yielded an invalid Step: number: expected an int, got a str"),
        (lambda: [Step(number=1, loss="2.5")], "yielded an invalid Step: loss: expected a float or None, got a str"),
        (lambda: [Event(kind="x", text=3)], "yielded an invalid Event: text: expected a str, got an int"),
        (lambda: [Event(kind="x", text="", facts={"a": []})], "yielded an invalid Event: facts[...]: expected"),
    ],
)
def test_an_invalid_record_names_the_plugin(feed: Callable[[], Any], says: str) -> None:
    for parser in (Saying(feed), Saying(list, feed)):
        with pytest.raises(PluginError) as error:
            collect(CheckedParser(parser, "plugin 'odd'"), ["a line"])
        expected = says if parser._feed is feed else says.replace("feed of", "close of")
        assert str(error.value).startswith("plugin 'odd': ") and expected in str(error.value)


def test_late_steps_of_a_log_are_validated_now_and_then() -> None:
    numbers = iter(range(10**6))
    late = Saying(lambda: [Step(number=(number := next(numbers)), loss=1.0 if number < 5000 else "1")])
    with pytest.raises(PluginError, match="yielded an invalid Step: loss"):
        collect(CheckedParser(late, "plugin 'odd'"), ["a line"] * 5100)


def test_own_errors_and_exceptions_of_the_lines_pass() -> None:
    def lines() -> Iterator[str]:
        yield "one"
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        collect(CheckedParser(Saying(list), "x"), lines())
    with pytest.raises(UsageError, match="another way"):
        collect(CheckedParser(Saying(fails(UsageError("another way"))), "x"), ["one"])


def test_an_event_that_quotes_its_line_can_be_stored() -> None:
    class Quoting(LogParser):
        def feed(self, line: Line) -> list[Event]:
            return [Event(kind="note", text=line, facts={"line": line})]

    events = CheckedParser(Quoting(), "x").feed("as it is")
    assert msgspec.json.decode(msgspec.json.encode(events[0]), type=Event) == events[0]


def test_its_prints_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    collect(CheckedParser(Saying(lambda: print("seen") or []), "x"), ["one"])
    assert capsys.readouterr() == ("", "seen\n")


def test_a_sniffer_that_fails_is_reported_once_and_matches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    format_ = guard_format(LogFormat("odd", "Odd", lambda text: 1 // 0, lambda: 1 // 0), "plugin 'odd'")
    assert (format_.sniff("a"), format_.sniff("b")) == (0, 0)
    assert capsys.readouterr().err.count("plugin 'odd': sniff of log format 'odd' failed: ZeroDivision") == 1
    with pytest.raises(PluginError, match="plugin 'odd': parser of log format 'odd' failed: ZeroDivision"):
        format_.parser()


@pytest.mark.parametrize(
    ("parser", "says"),
    [(lambda: 5, "returned an int, expected a LogParser: its class must inherit from llmbx.api.LogParser"),
     (lambda: Saying, "returned the class Saying, expected a LogParser: this is the class, expected an instance")],
)  # fmt: skip
def test_an_object_that_is_not_a_parser_is_named(parser: Callable[[], Any], says: str) -> None:
    with pytest.raises(PluginError) as error:
        guard_format(LogFormat("odd", "Odd", len, parser), "plugin 'odd'").parser()
    assert str(error.value) == f"plugin 'odd': parser of log format 'odd' {says}"


def test_a_parser_without_feed_is_named() -> None:
    class Deaf(LogParser):
        pass

    with pytest.raises(PluginError, match=r"^plugin 'odd': parser of log format 'odd' failed: TypeError: .*\bfeed\b"):
        guard_format(LogFormat("odd", "Odd", len, Deaf), "plugin 'odd'").parser()
