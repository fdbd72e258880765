"""Parse records `iteration N/M | key: value | key: value |`, also if the output of another process splits their lines.

A record without its last field stays open, under the label of its writer, until a following line completes it. To join
the two lines, the unparsed rest of the record (which may end in text of the other process) is shortened to the longest
prefix that forms a valid field together with the new line.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from llmbx.api import CUT, Event, read_real, read_whole

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI][nN][fF](?:inity)?)"

_WHOLE = r"(?:(?!0\.)\d[\d.]{4,}|0\.0*[1-9]\d{3,}|\d\.\d+[eE][-+]\d\d)"
"""A value at the full length of `%.4g` or `%.2e`: it is complete even if the line is cut off directly after it."""

PATIENCE = 64
"""Number of lines after which an incomplete record is dropped."""

LONGEST = 8192
"""Longer lines (in characters) are not considered as the rest of a record."""

LONGEST_TAIL = 160
"""Number of characters after the last complete field in which a cut field is searched for."""

_PLAIN = re.compile(rf"\s{{0,64}}+([^:|]{{1,64}}+):\s{{0,64}}+({NUMBER})\s{{0,64}}+\|")

_WHOLE_VALUE = re.compile(_WHOLE)

_OTHER_KEY = r"[A-Za-z_][\w ()/.\-]*+"

_UNIT = r"\s?[KMGTPE]?FLOPS?(?:/s)?"


class Schema:
    """The record syntax of one log format.

    `header` is a regular expression with the groups `number` and `total`; `beginning` matches the start of a header
    that is cut off. `keys` maps the keys in the log to short names; every complete record has the short name `time`.
    `last` is the key that ends a record, or None if a record ends with its line and its last value is not followed by
    a `|`. `exponents` are those of values in another unit than the short name's, by key or by the unit behind a value.
    `similar` finds the short name of a key that is not in `keys`. `mark` is a regular expression that is found faster
    than a header, and in each.
    """

    def __init__(
        self,
        header: str,
        beginning: str,
        keys: Mapping[str, str],
        last: str | None,
        exponents: Mapping[str, int] = {},
        similar: Callable[[str], str | None] = lambda key: None,
        mark: str = "",
    ) -> None:
        words = "|".join(re.escape(key) for key in sorted(keys, key=len, reverse=True))
        end = r"\|" if last else r"(?:\||$)"
        # `399.4/398.9` and `399.4 (avg 398.9)`: the step's own value and a running mean.
        mean = rf"(?:/{NUMBER}|\s*\([^()|]{{1,40}}\))?\s*"
        self.header = re.compile(header)
        self._mark = re.compile(mark)
        self.beginning = re.compile(beginning)
        self.keys = dict(keys)
        self.last = keys[last] if last else None
        self.exponents = dict(exponents)
        self._plain = {key: name for key, name in keys.items() if not self._exponent(key)}
        self.similar = similar
        unit = rf"(?P<unit>{_UNIT})?"
        self.known = re.compile(rf"\s*(?P<key>{words})\s*:\s*(?P<value>{NUMBER}){unit}{mean}{end}")
        self.other = re.compile(
            rf"\s*(?!(?:{words})\s*:)(?P<other>{_OTHER_KEY})\s*:\s*(?:(?P<value>{NUMBER}){mean}|\S{{1,60}}?\s*){end}"
        )
        # Any other text up to the next field; in a record that ends with its line, it may be another process's.
        stray = rf"(?![^|]*Step Time)[^|]{{1,300}}\|(?=\s*(?:{words}|{_OTHER_KEY})\s*:)"
        self.odd = re.compile(stray if last else r"(?!)")
        foreign = rf"(?=[^\s{CUT}])(?![\d.]|,\d|[eE]?[-+]?(?:\d|$))"
        self.glued = re.compile(rf"\s*(?P<key>{words})\s*:\s*(?P<value>{NUMBER}){foreign}")
        self.comma = re.compile(rf"(?P<key>{words})\s*:\s*[-+]?\d+,\d+(?:[eE][-+]\d+)?\s*(?:\||$)")
        self.cut = re.compile(rf"\s*(?P<key>{words})\s*:\s*(?P<value>{_WHOLE}){CUT}$")
        self.bare = re.compile(rf"\s*(?:$|(?:{words}|{_OTHER_KEY})\s*:)")

    def headers(self, text: str) -> list[re.Match[str]]:
        """The headers in a text. Most lines begin with their only one."""
        first = self.header.match(text)
        if first and not self._mark.search(text, first.end()):
            return [first]
        return list(self.header.finditer(text))

    def plain(self, body: str) -> dict[str, str] | None:
        """The values by short name of a body that only has fields `KEY: NUMBER |` with keys that are read, as nearly
        all have; None for another one. It finds what `field` and `value` do, in a quarter of the time.
        """
        fields = _PLAIN.findall(body)
        # Each `:` and `|` belongs to a field that matches, and nothing follows the last one.
        if self.last is None or not body.endswith("|") or not len(fields) == body.count("|") == body.count(":"):
            return None
        values = {}
        for key, value in fields:
            name = self._plain.get(key) or self._plain.get(key.rstrip())
            if name is None:
                return None
            values[name] = value
        return values

    def field(self, text: str, position: int) -> re.Match[str] | None:
        """The field at this position, or what stands there instead of one before the next field."""
        match = self.known.match(text, position) or self.other.match(text, position)
        return match or self.odd.match(text, position)

    def commas(self, text: str) -> list[Event]:
        """The fields whose value has a decimal comma."""
        if "," not in text:
            return []
        fields = {**{name: name for name in self.keys.values()}, "time": "time_s"}
        return [
            Event(
                kind="decimal_comma",
                text=match[0].strip(),
                facts={"name": match["key"], "field": fields[self.keys[match["key"]]]},
            )
            for match in self.comma.finditer(text)
        ]

    def value(self, match: re.Match[str]) -> tuple[str, str]:
        """The short name of a field and its value in the unit of this name; the name is empty if it is not read."""
        if match.re is self.odd or match["value"] is None:
            return "", ""
        if match.re is self.other:
            return self.similar(match["other"].strip()) or "", match["value"]
        exponent, value = self._exponent(match["unit"] or match["key"]), match["value"]
        return self.keys[match["key"]], f"{value}e{exponent}" if exponent and "e" not in value.lower() else value

    def _exponent(self, unit: str) -> int:
        return self.exponents.get(unit.strip().upper().removesuffix("/S"), 0)


@dataclass
class Reading:
    """A record as far as it has been read.

    `number` and `total` are the step and the number of steps in the header, `values` the texts of the values by short
    name, `tail` the text that was not parsed. `epoch` and `stamp` are the header's groups of these names, or 0 and None
    if the format has none.
    """

    number: int
    total: int | None
    values: dict[str, str] = field(default_factory=dict)
    tail: str = ""
    complete: bool = False
    epoch: int = 0
    stamp: str | None = None


@dataclass
class _Open:
    reading: Reading | None
    tail: str
    age: int = 0


class RecordReader:
    """Reads the records of one schema from lines. Lines with different labels are separate streams."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._open: dict[str, _Open] = {}
        self._last = 0
        self._ending: str | None = None

    @property
    def waiting(self) -> bool:
        """Whether a record is incomplete: then every line has to be read."""
        return bool(self._open)

    def read(self, label: str, text: str) -> tuple[list[Reading], str]:
        """Return the records that this line starts or continues, and the text that belongs to none of them."""
        heads = self.schema.headers(text)
        before = text[: heads[0].start()] if heads else text
        readings, rest = self._resume(label, before)
        for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=False):
            reading = self._begin(head, text[head.end() : stop])
            self._wait(label, reading)
            readings.append(reading)
            rest += reading.tail if reading.complete else ""
        if not readings and (cut := self.schema.beginning.search(text)):
            self._open[label] = _Open(None, text[cut.start() :])
        return readings, rest

    def whole(self, text: str) -> Reading | None:
        """Return the record of a text that is nothing but a complete one, as nearly all are, else None.

        Call it only if no record is incomplete.
        """
        head = self.schema.header.match(text)
        values = self.schema.plain(text[head.end() :]) if head else None
        if head is None or values is None or "time" not in values or self.schema.last not in values:
            return None
        reading = _reading(head)
        reading.values, reading.complete, self._last = values, True, reading.number
        return reading

    def parse(self, text: str) -> Reading | None:
        """Return the first record in `text`, ignoring incomplete records of earlier lines."""
        head = self.schema.header.search(text)
        return self._begin(head, text[head.end() :]) if head else None

    def forget(self, label: str) -> None:
        """Drop the incomplete record of this label."""
        self._open.pop(label, None)

    def _begin(self, head: re.Match[str], body: str) -> Reading:
        reading = _reading(head)
        self._fill(reading, body)
        return reading

    def _fill(self, reading: Reading, body: str) -> None:
        schema, position = self.schema, 0
        if (values := schema.plain(body)) is not None:
            reading.values, reading.complete = values, "time" in values and schema.last in values
            return
        while match := schema.field(body, position):
            start, position = position, match.end()
            name, value = schema.value(match)
            if name and (match.re is schema.known or name not in reading.values):
                reading.values[name] = value
            if position == len(body):
                # A last field without a `|` may continue in the next line.
                position = position if body.endswith("|") else start
                self._end(reading, name)
                break
        reading.tail = body[position:]
        loose = schema.glued.match(reading.tail) or schema.cut.match(reading.tail) if schema.last is None else None
        if loose is not None:
            reading.values[schema.keys[loose["key"]]] = loose["value"]
        reading.complete = self._is_complete(reading)

    def _end(self, reading: Reading, name: str) -> None:
        """The line ends with this field. One without the last field of the line before it is cut, perhaps in a number.

        The next line may have the rest.
        """
        before, self._ending = self._ending, name
        value = reading.values.get(name)
        shorter = self.schema.last is None and bool(before) and before not in reading.values
        if shorter and value and not _WHOLE_VALUE.fullmatch(value):
            del reading.values[name]

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
        whole = self._join_header(cut.tail, text) if cut.reading is None else self._join(cut.reading, cut.tail, text)
        if whole is not None:
            self._wait(label, whole)
            return [whole], whole.tail if whole.complete else ""
        cut.age += 1
        if cut.age > PATIENCE:
            del self._open[label]
        return [], text

    def _join_header(self, tail: str, text: str) -> Reading | None:
        candidates = []
        for length in range(min(len(tail), LONGEST_TAIL), 0, -1):
            joined = tail[:length] + text
            head = self.schema.header.match(joined)
            if head and length < head.end() and self.schema.bare.match(joined, head.end()):
                candidates.append((head, joined[head.end() :]))
        # The number may contain digits of another process's text: prefer the one that follows the last number.
        expected = [each for each in candidates if read_whole(each[0]["number"]) == self._last + 1]
        return self._begin(*(expected or candidates)[0]) if candidates else None

    def _join(self, reading: Reading, tail: str, text: str) -> Reading | None:
        for length in range(min(len(tail), LONGEST_TAIL), -1, -1):
            joined = tail[:length] + text
            match = self.schema.known.match(joined)
            if match and match.end() > length and self.schema.bare.match(joined, match.end()):
                again = self.schema.keys[match["key"]] if tail[:length].strip() else None
                return self._extend(reading, joined, again)
        # The key of the cut field is not in the schema, but the fields after it may be.
        bar = text.find("|")
        if bar >= 0 and self.schema.known.match(text, bar + 1):
            return self._extend(reading, text[bar + 1 :], None)
        return None

    def _extend(self, reading: Reading, body: str, again: str | None) -> Reading | None:
        """Return `reading` with the values of `body`.

        Returns None if a value other than `again` is known already: then `body` belongs to another record.
        """
        more = Reading(reading.number, reading.total, epoch=reading.epoch, stamp=reading.stamp)
        self._fill(more, body)
        if any(name in reading.values and name != again for name in more.values):
            return None
        more.values = {**reading.values, **more.values}
        more.complete = self._is_complete(more)
        return more

    def _is_complete(self, reading: Reading) -> bool:
        return self.schema.last in reading.values and "time" in reading.values


def _reading(head: re.Match[str]) -> Reading:
    """The record that begins with this header, without values."""
    groups = head.groupdict()
    total = groups["total"]
    return Reading(
        number=read_whole(groups["number"]),
        total=read_whole(total) if total.isdigit() else None,
        epoch=read_whole(groups.get("epoch") or "0"),
        stamp=groups.get("stamp"),
    )


def number(text: str | None) -> float | None:
    """Return a printed number (also nan and inf) as a float; None for None."""
    return read_real(text) if text is not None else None


def integer(text: str | None) -> int | None:
    """Return a printed number as an int; None for None, nan and inf."""
    value = number(text)
    return int(value) if value is not None and abs(value) < float("inf") else None


def seconds(text: str | None, exponent: int = 0) -> float | None:
    """Return a printed time in seconds; `exponent` is that of the printed unit (-3 for milliseconds: 662.9 -> 0.6629).

    Returns None for None and zero, since a step cannot take no time. Core reports negative times, nan and inf.
    """
    if text is None or not text[-1].isdigit() or "e" in text.lower():
        value = (number(text) or 0.0) * 10.0**exponent
    else:
        value = read_real(f"{text}e{exponent}")
    return value or None


def resolution(text: str | None) -> float | None:
    """Return the value of a number's last printed digit: 0.1 for `1180.5`, 1.0 for `4.05e+02`.

    Returns None if `text` is None, nan, inf or not a number.
    """
    parts = re.fullmatch(r"[-+]?\d+(?:\.(\d*))?(?:[eE]([-+]?\d+))?", text or "")
    return float(f"1e{int(parts[2] or 0) - len(parts[1] or '')}") if parts else None


def seconds_of(stamp: str | None) -> float | None:
    """Return the time `2026-11-21 10:30:11` in seconds; None for None and for other text.

    Only differences have a meaning: the log has no time zone.
    """
    if stamp is None:
        return None
    year, month, day = int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10])
    if not (year > 0 and 0 < month <= 12 and day):
        return None
    return float(calendar.timegm((year, month, day, int(stamp[11:13]), int(stamp[14:16]), int(stamp[17:19]))))
