"""The `Step Time : 5.71s GPU utilization: 1181.5MODEL_TFLOP/s/GPU` line, whole or cut by the iteration's line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .fields import Reading

_LAYOUT = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] iteration [ \d]{8}/[ \d]{8} \|"
    r"|(?<=\|) consumed samples: [ \d]{12} \|"
    r"|(?<=\|) elapsed time per iteration \(ms\): \d+\.\d \|"
    r"|(?<=\|) global batch size: [ \d]{5} \|"
    r"|(?<=\|) number of [a-z]+ iterations: [ \d]{3} \|"
    r"|(?<=\|) loss scale: \d+\.\d \|"
    r"|(?<=\|) grad norm: \d+\.\d{3} \|"
    r"|(?<=\|) [a-z][a-z_ ]+: \d\.\d{6}E[+-]\d\d \|"
)
"""How Megatron lays out the parts of an iteration's line; one that looks otherwise has lost or gained a character."""

STEP_TIME = re.compile(
    r"Step Time\s*:\s*(?P<time>\d+\.\d\d)s GPU utilization:\s*(?P<tflops>\d+\.\d)\s*(?:MODEL_)?TFLOP/s/GPU"
)

# The end of such a line, at the beginning of ours: its own beginning went elsewhere.
STEP_TIME_END = re.compile(
    r"[A-Za-z ]{0,9}:\s*(?P<time>\d+\.\d\d)s GPU utilization:\s*(?P<tflops>\d+\.\d)\s*(?:MODEL_)?TFLOP/s/GPU"
)

_SKELETON = "Step Time : #s GPU utilization: #MODEL_TFLOP/s/GPU"
_NUMBERS = re.compile(r"\d+(?:\.\d*)?")
_LENGTH = 100
"""No `Step Time` line is longer than this."""

Match = re.Match[str]
Found = tuple[Match, str]


def peel(text: str) -> tuple[list[Match], str]:
    """Every whole `Step Time` text, and the line without them."""
    found = []
    end = STEP_TIME_END.match(text)
    if end and not text.startswith("Step Time"):
        found.append(end)
        text = text[end.end() :]
    if "Step Time" in text:
        found += STEP_TIME.finditer(text)
        text = STEP_TIME.sub("", text)
    return found, text


def finish(begun: str, text: str) -> Found | None:
    """A `Step Time` text that was cut at the end of `begun` and goes on at the start of `text`, and what follows it."""
    for kept in range(min(len(begun), _LENGTH), 0, -1):
        match = STEP_TIME.match(begun[:kept] + text)
        if match and match.end() > kept:
            return match, text[match.end() - kept :]
    return None


def unshuffle(first: str, second: str, parse: Callable[[str], Reading | None]) -> tuple[Match, Reading] | None:
    """Two lines, one of `Step Time` and one of an iteration, each cut once and printed in turns.

    Digits of the one may stand directly before digits of the other. Of the ways to part them, the one counts that
    leaves most parts of the iteration's line as Megatron lays them out, and in which the two times agree best. None
    when there is no way.
    """
    ways = []
    for match, rest in [*_begun_inside(first, second), *_wrapped_around(first, second)]:
        reading = parse(rest)
        if reading is not None and reading.complete:
            ways.append((_likely(match, rest, reading), match, reading))
    return max(ways, key=lambda way: way[0])[1:] if ways else None


def _likely(match: Match, rest: str, reading: Reading) -> tuple[int, float, int]:
    ours, theirs = float(match["time"]), float(reading.values["time"]) / 1000
    apart = abs(ours - theirs) / max(ours, theirs, 1e-9)
    return sum(1 for _ in _LAYOUT.finditer(rest)), -apart, match.end() - match.start()


def _begun_inside(first: str, second: str) -> Iterator[Found]:
    """The `Step Time` text begins somewhere in `first` and ends in `second`."""
    for start in _starts(first):
        for stop in range(start + 1, min(len(first), start + _LENGTH) + 1):
            begun = first[start:stop]
            if not _is_beginning(begun):
                break
            match = STEP_TIME.match(begun + second)
            if match and match.end() > len(begun):
                yield match, first[:start] + first[stop:] + second[match.end() - len(begun) :]


def _wrapped_around(first: str, second: str) -> Iterator[Found]:
    """The `Step Time` text is all in `first`, around the beginning of the iteration's line; its rest is `second`."""
    end = len(first.rstrip())
    for start in _starts(first):
        for stop in range(start + 1, min(len(first), start + _LENGTH) + 1):
            begun = first[start:stop]
            if not _is_beginning(begun):
                break
            for again in range(max(stop + 1, end - _LENGTH), end):
                match = STEP_TIME.fullmatch(begun + first[again:end])
                if match:
                    yield match, first[:start] + first[stop:again] + second


def _starts(text: str) -> Iterator[int]:
    return (match.start() for match in re.finditer("S", text))


def _is_beginning(text: str) -> bool:
    return _SKELETON.startswith(_NUMBERS.sub("#", text))
