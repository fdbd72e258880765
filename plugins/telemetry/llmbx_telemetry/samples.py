"""Read what the samplers wrote, one file a node, as columns over time (docs/telemetry.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmbx.api import RunFile, RunFolder

from .companion import NAME

FORMAT = b"llmbx-telemetry\t1\t"
LARGEST = 1 << 30
"""Files of more bytes are not read."""
MOST_COLUMNS = 20_000
MOST_ROWS = 1_000_000

LEAST_READ = 3
"""Times that a counter has to be read between two times to say how it grew between them."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Event:
    """Something that happened once: `time` in epoch seconds, the object, and the text."""

    time: float
    thing: str
    text: str


LEAST_READ = 3
"""Times that a counter has to be read between two times to say how it grew between them."""


@dataclass(frozen=True)
class Samples:
    """What one start of a sampler collected on one node.

    `time` are epoch seconds by the node's clock, `monotonic` its clock since boot, both of each
    sample; `columns` have a value for each sample, NaN where there was none. `missing` says why
    something was not collected.
    """

    node: str
    number: int
    boot_id: str
    monotonic: Floats
    time: Floats
    columns: Mapping[str, Floats]
    units: Mapping[str, str]
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    def things(self, kind: str) -> list[str]:
        """Return the objects of a kind ("gpu", "rank") that have columns, in order."""
        names = {name.partition(".")[0] for name in self.columns}
        numbers = [name[len(kind) :] for name in names if name.startswith(kind)]
        return [f"{kind}{number}" for number in sorted(int(n) for n in numbers if n.isdigit())]

    def get(self, name: str) -> Floats:
        """Return a column; NaN for all samples if it was not collected."""
        missing: Floats = np.full(len(self.time), np.nan)
        return self.columns.get(name, missing)

    def between(self, first: float, last: float) -> NDArray[np.bool_]:
        """Return which samples were taken between two times in epoch seconds."""
        inside: NDArray[np.bool_] = (self.time >= first) & (self.time <= last)
        return inside

    def increase(self, name: str, first: float, last: float) -> float | None:
        """Return by how much a counter grew between two times, interpolated; None if unknown.

        A counter that was set back counts from 0 again.
        """
        values = self.get(name)
        known = ~np.isnan(values)
        if known.sum() < 2 or first < self.time[known][0] - 1 or last <= first:
            return None
        steps = np.diff(values[known])
        total = np.concatenate(([0.0], np.cumsum(np.where(steps < 0, values[known][1:], steps))))
        start, end = np.interp([first, last], self.time[known], total)
        return float(end - start)

    def counted(self, name: str, first: float, last: float) -> float | None:
        """Return by how much a counter that always grows did so between two times, as it was read.

        None if it was read less than `LEAST_READ` times in between, as where reading takes long.
        """
        values = self.get(name)
        changed = np.diff(values, prepend=np.nan) != 0
        read = np.flatnonzero(changed & ~np.isnan(values))
        inside = (self.time[read] >= first) & (self.time[read] <= last)
        if inside.sum() < LEAST_READ or last <= first:
            return None
        start, end = np.interp([first, last], self.time[read], values[read])
        return float(end - start)

    def at(self, name: str, times: Floats, most_s: float) -> Floats:
        """Return the last value of a column before each time; NaN if it is older than `most_s`."""
        places = np.searchsorted(self.time, times, side="right") - 1
        values: Floats = self.get(name)[np.maximum(places, 0)]
        old = (places < 0) | (times - self.time[np.maximum(places, 0)] > most_s)
        return np.where(old, np.nan, values)

    def mean(self, name: str, first: float, last: float) -> float | None:
        """Return the mean of a column over the samples between two times; None if there is none."""
        values = self.get(name)[self.between(first, last)]
        values = values[~np.isnan(values)]
        return float(values.mean()) if len(values) else None


@dataclass(frozen=True)
class Merged:
    """One measure of all nodes at the same times: a row for each node and object."""

    time: Floats
    rows: tuple[tuple[str, str], ...]
    values: Floats


def merge(samples: Sequence[Samples], kind: str, measure: str, every_s: float = 1.0) -> Merged:
    """Return a measure ("clock.sm") of all objects of a kind ("gpu"), at regular times.

    The value at a time is the last one before it; NaN if that is older than two intervals.
    """
    if not samples:
        return Merged(np.empty(0), (), np.empty((0, 0)))
    begin, end = (
        min(each.time[0] for each in samples),
        max(each.time[-1] for each in samples),
    )
    times = np.arange(begin, end + every_s, every_s)
    rows = [(each, thing) for each in samples for thing in each.things(kind)]
    values = [each.at(f"{thing}.{measure}", times, 2 * every_s) for each, thing in rows]
    names = tuple((each.node, thing) for each, thing in rows)
    return Merged(times, names, np.array(values).reshape(len(rows), len(times)))


def read_samples(run_dir: Path) -> list[Samples]:
    """Return what was collected on each node, in the order of nodes and of their starts."""
    files = RunFolder(path=run_dir).glob(f"{NAME}/node-*.tsv")
    segments = [samples for file in files for samples in read_file(file)]
    return sorted(segments, key=lambda samples: (samples.number, samples.time[0]))


def read_errors(run_dir: Path) -> dict[str, str]:
    """Return the last line that each node's sampler printed, if any, by the node's number."""
    errors = {}
    for file in RunFolder(path=run_dir).glob(f"{NAME}/node-*.err"):
        lines = _content(file, 1 << 16).decode("utf-8", "replace").split("\n")
        words = [line.strip() for line in lines if line.strip()]
        if words:
            errors[file.name.removesuffix(".err").removeprefix("node-")] = words[-1]
    return errors


def read_file(file: RunFile) -> list[Samples]:
    """Return the segments of one file; those that have no sample are left out."""
    content = _content(file, LARGEST)
    starts = [match.start() for match in re.finditer(b"(?m)^" + re.escape(FORMAT), content)]
    parts = [content[first:last] for first, last in zip(starts, [*starts[1:], None], strict=True)]
    return [samples for part in parts if (samples := parse(part)) is not None]


def _content(file: RunFile, most: int) -> bytes:
    try:
        with file.open() as opened:
            return opened.read(most)
    except OSError:
        return b""


def parse(segment: bytes) -> Samples | None:
    """Parse one segment; None if it has no sample. Lines that cannot be read are ignored."""
    lines = segment.split(b"\n")[:-1]  # the last line has no end if it is not whole
    head = _facts(lines[0].split(b"\t", 2)[-1]) if lines else {}
    started, wall = head.get("monotonic"), head.get("wall")
    if not isinstance(started, float | int) or not isinstance(wall, float | int):
        return None
    reader = _Reader(float(wall))
    for line in lines[1:]:
        reader.line(line)
    if not reader.rows:
        return None
    since = np.cumsum(np.array(reader.since, dtype=np.float64)) / 1e6
    return Samples(
        node=str(head.get("node", "")),
        number=_whole(head.get("number")) or 0,
        boot_id=str(head.get("boot_id", "")),
        monotonic=float(started) + since,
        time=float(wall) + since,
        columns=dict(reader.matrix()),
        units=dict(reader.units),
        facts=reader.facts,
        events=tuple(reader.events),
        missing=reader.missing,
    )


class _Reader:
    """The lines of one segment."""

    def __init__(self, wall: float) -> None:
        self.wall, self.elapsed = wall, 0
        self.units: list[tuple[str, str]] = []
        self.begins: list[int] = []
        self.since: list[int] = []
        self.rows: list[bytes] = []
        self.facts: dict[str, Mapping[str, Any]] = {}
        self.events: list[Event] = []
        self.missing: dict[str, str] = {}

    def line(self, line: bytes) -> None:
        kind, _, rest = line.partition(b"\t")
        if kind == b"r":
            since, _, changes = rest.partition(b"\t")
            if since.isdigit() and len(self.rows) < MOST_ROWS:
                self.since.append(int(since))
                self.elapsed += int(since)
                self.rows.append(changes)
            return
        words = rest.decode("utf-8", "replace").split("\t")
        if kind == b"c" and len(words) == 3 and words[0] == str(len(self.units)):
            if len(self.units) < MOST_COLUMNS:
                self.units.append((words[1], words[2]))
                self.begins.append(len(self.rows))
        elif kind == b"m" and len(words) == 2:
            self.missing[words[0]] = words[1]
        elif kind in (b"e", b"f") and len(words) == 3 and words[0].isdigit():
            if kind == b"f":
                self.facts[words[1]] = _facts(words[2].encode())
            else:
                at = self.wall + (self.elapsed + int(words[0])) / 1e6
                self.events.append(Event(at, words[1], words[2]))

    def matrix(self) -> Iterator[tuple[str, Floats]]:
        """Yield each column with a value for each row."""
        row, column, change = self._changes()
        order = np.lexsort((row, column))
        row, column, change = row[order], column[order], change[order]
        bounds = np.searchsorted(column, np.arange(len(self.units) + 1))
        for number, (name, _) in enumerate(self.units):
            part = slice(bounds[number], bounds[number + 1])
            yield name, _values(row[part], change[part], self.begins[number], len(self.rows))

    def _changes(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Return row, column and change of everything that changed; NaN for a value that ended."""
        whole = [changes if _ROW.fullmatch(changes) else b"" for changes in self.rows]
        counts = np.array([changes.count(b":") for changes in whole], dtype=np.intp)
        text = b"\t".join(changes for changes in whole if changes).replace(b":x", b":nan")
        numbers = np.fromstring(text.replace(b":", b" ").replace(b"\t", b" ").decode(), sep=" ")
        return np.repeat(np.arange(len(whole)), counts), numbers[::2].astype(np.intp), numbers[1::2]


_ROW = re.compile(rb"(?:\d{1,5}:(?:x|-?\d{1,18})(?:\t|$))*")


def _values(row: NDArray[np.intp], change: Floats, begin: int, rows: int) -> Floats:
    """Return the values of a column in all rows; NaN before it begins and where it has none."""
    values = np.zeros(rows)
    values[row] = change
    ends = row[np.isnan(change)]
    for first, last in zip([begin, *ends + 1], [*ends, rows], strict=True):
        values[first:last] = np.cumsum(values[first:last])
    for end in ends:  # without a value until the next change
        later = row[row > end]
        values[end : later[0] if len(later) else rows] = np.nan
    values[:begin] = np.nan
    return values


def _facts(text: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def events_of(samples: Sequence[Samples]) -> list[tuple[str, Event]]:
    """Return the events of all nodes in order of time, each with its node."""
    events = [(each.node, event) for each in samples for event in each.events]
    return sorted(events, key=lambda pair: pair[1].time)
