"""Parse `Step Time : 5.71s GPU utilization: 1181.5MODEL_TFLOP/s/GPU`, also if the iteration's line interrupts it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from llmbx.api import read_real

from .fields import Reading

_LAYOUT = re.compile(
    r"(?<!\d)(?<!\d )\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] iteration [ \d]{8}/[ \d]{8} \|"
    r"|(?<=\|) consumed samples: [ \d]{12} \|"
    r"|(?<=\|) elapsed time per iteration \(ms\): \d+\.\d \|"
    r"|(?<=\|) global batch size: [ \d]{5} \|"
    r"|(?<=\|) number of [a-z]+ iterations: [ \d]{3} \|"
    r"|(?<=\|) loss scale: \d+\.\d \|"
    r"|(?<=\|) grad norm: \d+\.\d{3} \|"
    r"|(?<=\|) [a-z][a-z_ ]+: \d\.\d{6}E[+-]\d\d \|"
)
"""Megatron's exact layout of the fields of an iteration's line. A field that does not match has lost or gained
characters. A digit before the line is the rest of a number of the other text."""

STEP_TIME = re.compile(
    r"Step Time\s*:\s*(?P<time>\d+\.\d\d)s GPU utilization:\s*(?P<tflops>\d+\.\d)\s*(?:MODEL_)?TFLOP/s/GPU"
)

# The end of a `Step Time` text at the start of a line; its beginning is in another line.
STEP_TIME_END = re.compile(
    r"[A-Za-z ]{0,9}:\s*(?P<time>\d+\.\d\d)s GPU utilization:\s*(?P<tflops>\d+\.\d)\s*(?:MODEL_)?TFLOP/s/GPU"
)

_SKELETON = "Step Time : #s GPU utilization: #MODEL_TFLOP/s/GPU"
_NUMBERS = re.compile(r"\d+(?:\.\d*)?")
_LENGTH = 100
"""Maximum length of a `Step Time` text, in characters."""

Match = re.Match[str]
Found = tuple[Match, str]


def extract(text: str) -> tuple[list[Match], str]:
    """Return the matches of every complete `Step Time` text, and the line without these."""
    matches = []
    end = STEP_TIME_END.match(text)
    if end and not text.startswith("Step Time"):
        matches.append(end)
        text = text[end.end() :]
    if "Step Time" in text:
        matches += STEP_TIME.finditer(text)
        text = STEP_TIME.sub("", text)
    return matches, text


def complete(begun: str, text: str) -> Found | None:
    """Join a `Step Time` text that starts at the end of `begun` and continues at the start of `text`.

    Returns the match and the text after it, or None.
    """
    for length in range(min(len(begun), _LENGTH), 0, -1):
        match = STEP_TIME.match(begun[:length] + text)
        if match and match.end() > length:
            return match, text[match.end() - length :]
    return None


def deinterleave(first: str, second: str, parse: Callable[[str], Reading | None]) -> tuple[Match, Reading] | None:
    """Separate a `Step Time` text and an iteration's line that were split once each and printed interleaved.

    Digits of one may directly precede digits of the other. Of all ways to separate them, the one is chosen that leaves
    the most fields of the iteration's line in Megatron's exact layout, and then the one in which the two times agree
    best. Returns None if the lines cannot be separated.
    """
    candidates = []
    for match, rest in [*_begun_inside(first, second), *_wrapped_around(first, second)]:
        reading = parse(rest)
        if reading is not None and reading.complete:
            candidates.append((_score(match, rest, reading), match, reading))
    return max(candidates, key=lambda candidate: candidate[0])[1:] if candidates else None


def _score(match: Match, rest: str, reading: Reading) -> tuple[int, float, int]:
    ours, theirs = read_real(match["time"]), read_real(reading.values["time"]) / 1000
    apart = abs(ours - theirs) / max(ours, theirs, 1e-9)
    return sum(1 for _ in _LAYOUT.finditer(rest)), -apart, match.end() - match.start()


def _begun_inside(first: str, second: str) -> Iterator[Found]:
    """Yield the cases in which the `Step Time` text starts inside `first` and ends in `second`."""
    for start in _starts(first):
        for stop in range(start + 1, min(len(first), start + _LENGTH) + 1):
            begun = first[start:stop]
            if not _is_beginning(begun):
                break
            match = STEP_TIME.match(begun + second)
            if match and match.end() > len(begun):
                yield match, first[:start] + first[stop:] + second[match.end() - len(begun) :]


def _wrapped_around(first: str, second: str) -> Iterator[Found]:
    """Yield the cases in which `first` has the whole `Step Time` text around the start of the iteration's line.

    The rest of the iteration's line is `second`.
    """
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
