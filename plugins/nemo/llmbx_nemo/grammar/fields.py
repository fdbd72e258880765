"""Reading `iteration N/M | key: value | key: value |` lines, also those that another writer's output has cut in two.

A record that stops before its end stays open, under the label of its writer, for the lines that follow. A line that
goes on where it stopped completes it: what remained unread (perhaps with foreign text glued to it) is cut back to the
longest beginning that makes a proper field together with the new line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmbx.logs.lines import CUT

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI][nN][fF](?:inity)?)"

_WHOLE = r"(?:(?!0\.)\d[\d.]{4,}|0\.0*[1-9]\d{3,}|\d\.\d+[eE][-+]\d\d)"
"""A value as `%.4g` or `%.2e` prints it at its longest: nothing can be missing even where the log ends in it."""

PATIENCE = 64
"""A cut record waits this many lines for its rest."""

LONGEST = 8192
"""A longer line is not the rest of a record."""

LONGEST_TAIL = 160
"""A cut field is sought in this many characters behind the last whole one."""

_OTHER_KEY = r"[A-Za-z_][\w ()/.\-]*?"


class Schema:
    """How one format writes a record.

    `header` has the groups `number` and `total`; `beginning` finds where a header starts that is cut off; `keys` maps
    the log's own words to short names, of which every whole record has `time`; `last` is the key that ends a record, or
    None where a record ends with its line and its last value needs no bar.
    """

    def __init__(self, header: str, beginning: str, keys: Mapping[str, str], last: str | None) -> None:
        words = "|".join(re.escape(key) for key in sorted(keys, key=len, reverse=True))
        end = r"\|" if last else r"(?:\||$)"
        self.header = re.compile(header)
        self.beginning = re.compile(beginning)
        self.keys = dict(keys)
        self.last = keys[last] if last else None
        self.known = re.compile(rf"\s*(?P<key>{words})\s*:\s*(?P<value>{NUMBER})(?:/{NUMBER})?\s*{end}")
        self.other = re.compile(rf"\s*(?!(?:{words})\s*:){_OTHER_KEY}\s*:\s*\S{{1,60}}?\s*{end}")
        foreign = rf"(?=[^\s{CUT}])(?![\d.]|[eE]?[-+]?(?:\d|$))"
        self.glued = re.compile(rf"\s*(?P<key>{words})\s*:\s*(?P<value>{NUMBER}){foreign}")
        self.cut = re.compile(rf"\s*(?P<key>{words})\s*:\s*(?P<value>{_WHOLE}){CUT}$")
        self.bare = re.compile(rf"\s*(?:$|(?:{words}|{_OTHER_KEY})\s*:)")


@dataclass
class Reading:
    """One record so far: its number, the announced total, the text of the values by short name, what was not read.

    `epoch` is what the header's group of that name holds, where a format has one.
    """

    number: int
    total: int | None
    values: dict[str, str] = field(default_factory=dict)
    tail: str = ""
    complete: bool = False
    epoch: int = 0


@dataclass
class _Open:
    reading: Reading | None
    tail: str
    age: int = 0


class RecordReader:
    """Reads the records of one schema from lines, one stream of lines a label."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._open: dict[str, _Open] = {}
        self._last = 0

    @property
    def waiting(self) -> bool:
        """Whether a cut record waits for its rest: then every line matters."""
        return bool(self._open)

    def read(self, label: str, text: str) -> tuple[list[Reading], str]:
        """The records that this line begins or goes on with, and the text that belongs to none of them."""
        heads = list(self.schema.header.finditer(text))
        before = text[: heads[0].start()] if heads else text
        found, rest = self._resume(label, before)
        for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=False):
            reading = self._begin(head, text[head.end() : stop])
            self._wait(label, reading)
            found.append(reading)
            rest += reading.tail if reading.complete else ""
        if not found and (cut := self.schema.beginning.search(text)):
            self._open[label] = _Open(None, text[cut.start() :])
        return found, rest

    def parse(self, text: str) -> Reading | None:
        """The first record in `text`, without regard to what came before."""
        head = self.schema.header.search(text)
        return self._begin(head, text[head.end() :]) if head else None

    def forget(self, label: str) -> None:
        """The cut record of this label was read in another way."""
        self._open.pop(label, None)

    def _begin(self, head: re.Match[str], body: str) -> Reading:
        total = head["total"]
        reading = Reading(int(head["number"]), int(total) if total.isdigit() else None)
        reading.epoch = int(head.groupdict().get("epoch") or 0)
        self._fill(reading, body)
        return reading

    def _fill(self, reading: Reading, body: str) -> None:
        schema, position = self.schema, 0
        while match := schema.known.match(body, position) or schema.other.match(body, position):
            start, position = position, match.end()
            if "key" in match.re.groupindex:
                reading.values[schema.keys[match["key"]]] = match["value"]
            if position == len(body):
                # A last field without a bar may go on in the next line.
                position = position if body.endswith("|") else start
                break
        reading.tail = body[position:]
        loose = schema.glued.match(reading.tail) or schema.cut.match(reading.tail) if schema.last is None else None
        if loose is not None:
            reading.values[schema.keys[loose["key"]]] = loose["value"]
        reading.complete = self._is_complete(reading)

    def _wait(self, label: str, reading: Reading) -> None:
        self._last = reading.number
        if reading.complete:
            self._open.pop(label, None)
        else:
            self._open[label] = _Open(reading, reading.tail)

    def _resume(self, label: str, text: str) -> tuple[list[Reading], str]:
        cut = self._open.get(label)
        if cut is None or not text.strip() or len(text) > LONGEST:
            return [], text
        whole = self._mend_header(cut.tail, text) if cut.reading is None else self._mend(cut.reading, cut.tail, text)
        if whole is not None:
            self._wait(label, whole)
            return [whole], whole.tail if whole.complete else ""
        cut.age += 1
        if cut.age > PATIENCE:
            del self._open[label]
        return [], text

    def _mend_header(self, tail: str, text: str) -> Reading | None:
        ways = []
        for kept in range(min(len(tail), LONGEST_TAIL), 0, -1):
            joined = tail[:kept] + text
            head = self.schema.header.match(joined)
            if head and kept < head.end() and self.schema.bare.match(joined, head.end()):
                ways.append((head, joined[head.end() :]))
        # Digits of foreign text may have joined the number: the one that is next in turn is right.
        in_turn = [way for way in ways if int(way[0]["number"]) == self._last + 1]
        return self._begin(*(in_turn or ways)[0]) if ways else None

    def _mend(self, reading: Reading, tail: str, text: str) -> Reading | None:
        for kept in range(min(len(tail), LONGEST_TAIL), -1, -1):
            joined = tail[:kept] + text
            match = self.schema.known.match(joined)
            if match and match.end() > kept and self.schema.bare.match(joined, match.end()):
                again = self.schema.keys[match["key"]] if tail[:kept].strip() else None
                return self._extend(reading, joined, again)
        # The field that was cut is not one that is read; what follows it may be.
        bar = text.find("|")
        if bar >= 0 and self.schema.known.match(text, bar + 1):
            return self._extend(reading, text[bar + 1 :], None)
        return None

    def _extend(self, reading: Reading, body: str, again: str | None) -> Reading | None:
        """`reading` with the values of `body`, unless one but `again` is known already: then `body` is another's."""
        more = Reading(reading.number, reading.total, epoch=reading.epoch)
        self._fill(more, body)
        if any(name in reading.values and name != again for name in more.values):
            return None
        more.values = {**reading.values, **more.values}
        more.complete = self._is_complete(more)
        return more

    def _is_complete(self, reading: Reading) -> bool:
        return self.schema.last in reading.values and "time" in reading.values


def number(text: str | None) -> float | None:
    """The value of a number as the log prints it (also nan and inf), or None."""
    return float(text) if text is not None else None


def integer(text: str | None) -> int | None:
    """A number as a whole one, or None where there is none (also for nan and inf)."""
    value = number(text)
    return int(value) if value is not None and abs(value) < float("inf") else None


def seconds(text: str | None, exponent: int = 0) -> float | None:
    """A printed time in seconds, the unit's exponent given (-3 for milliseconds; 662.9 is 0.6629); None where unknown.

    No step takes no time: a zero, like nan or inf, is an unknown time.
    """
    if text is None or not text[-1].isdigit() or "e" in text.lower():
        value = (number(text) or 0.0) * 10.0**exponent
    else:
        value = float(f"{text}e{exponent}")
    return value if 0.0 < value < float("inf") else None


def resolution(text: str | None) -> float | None:
    """The step in which a number is printed: 0.1 for `1180.5`, 1.0 for `4.05e+02`; None for no number, nan or inf."""
    parts = re.fullmatch(r"[-+]?\d+(?:\.(\d*))?(?:[eE]([-+]?\d+))?", text or "")
    return float(f"1e{int(parts[2] or 0) - len(parts[1] or '')}") if parts else None
