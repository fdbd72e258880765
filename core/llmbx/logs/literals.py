"""The texts that every match of a regular expression contains: a filter that is derived from the expressions.

Digits are left out, so that the filter can be asked about a line without its numbers.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_constants
    import sre_parse

Clause = frozenset[str]
"""Texts of which every match contains one."""

SHORTEST = 2
"""Shorter texts are in too many lines."""

_POINTER = re.compile(rb"0x[0-9a-f]{3,16}")  # without \b before it, the search is three times as fast

_ZERO_WIDTH = (sre_constants.AT, sre_constants.ASSERT, sre_constants.ASSERT_NOT)
_REPEATS = (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT, sre_constants.POSSESSIVE_REPEAT)


def without_numbers(text: str) -> bytes:
    """The text without digits and pointers, in UTF-8: bytes are the fastest."""
    data = text.encode("utf-8", "replace")
    return (_POINTER.sub(b"", data) if b"0x" in data else data).translate(None, b"0123456789")


def required(pattern: str) -> tuple[tuple[Clause, ...], ...]:
    """The clauses of each alternative of a pattern, the most telling first.

    A text in which a clause of each alternative is missing has no match.
    """
    parsed: Any = sre_parse.parse(pattern)
    whole = len(parsed) == 1 and parsed[0][0] is sre_constants.BRANCH
    return tuple(_clauses(branch) for branch in (parsed[0][1][1] if whole else (parsed,)))


def _clauses(parts: Iterable[Any]) -> tuple[Clause, ...]:
    return tuple(sorted(_Reader().read(parts), key=_worth, reverse=True))


class _Reader:
    """Reads a sequence of a parsed pattern, and collects the clauses and the text that stands before the next part."""

    def __init__(self) -> None:
        self.clauses: list[Clause] = []
        self._text = ""

    def read(self, parts: Iterable[Any]) -> list[Clause]:
        self._sequence(parts)
        self._end()
        return self.clauses

    def _sequence(self, parts: Iterable[Any]) -> None:
        for kind, value in parts:
            if kind is sre_constants.LITERAL and not chr(value).isdigit():
                self._text += chr(value)
            elif kind is sre_constants.SUBPATTERN and not (value[1] & re.IGNORECASE):
                self._sequence(value[-1])
            elif kind not in _ZERO_WIDTH:
                self._end()
                self._other(kind, value)

    def _other(self, kind: Any, value: Any) -> None:
        if kind is sre_constants.BRANCH:
            self._branch(value[1])
        elif kind in _REPEATS and value[0]:
            self.clauses += _Reader().read(value[2])
        elif kind is sre_constants.ATOMIC_GROUP:
            self.clauses += _Reader().read(value)

    def _branch(self, branches: Sequence[Iterable[Any]]) -> None:
        """One clause, with the best one of each branch; none if a branch has none."""
        best = [max(_Reader().read(branch), key=_worth, default=None) for branch in branches]
        if all(best):
            texts = {text for clause in best if clause for text in clause}
            self.clauses.append(frozenset(text for text in texts if not any(o in text for o in texts - {text})))

    def _end(self) -> None:
        if len(self._text) >= SHORTEST:
            self.clauses.append(frozenset((self._text,)))
        self._text = ""


def _worth(clause: Clause) -> int:
    return min(map(len, clause))


class Filter:
    """Patterns by the texts that each match of theirs contains. Raises `ValueError` for one that has none."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._alternatives: list[tuple[int, tuple[Clause, ...]]] = []
        self._places: dict[str, list[int]] = {}
        for place, pattern in enumerate(patterns):
            for clauses in required(pattern):
                if not clauses:
                    raise ValueError(f"an alternative of {pattern!r} has no text that each match contains")
                for text in clauses[0]:
                    self._places.setdefault(text, []).append(len(self._alternatives))
                self._alternatives.append((place, clauses[1:]))

    def places(self, text: str) -> tuple[int, ...]:
        """The places of the patterns that may match a text, in order. The text may be without its numbers."""
        found = {number for known, numbers in self._places.items() if known in text for number in numbers}
        if not found:
            return ()
        near = [self._alternatives[number] for number in found]
        return tuple(sorted({place for place, rest in near if all(any(t in text for t in each) for each in rest)}))
