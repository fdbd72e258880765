"""The texts that every match of a regular expression contains: a filter that is derived from the expressions.

The filter is asked about the skeletons of lines: a log of millions of lines has few of them.
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

_ZERO_WIDTH = (sre_constants.AT, sre_constants.ASSERT, sre_constants.ASSERT_NOT)
_REPEATS = (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT, sre_constants.POSSESSIVE_REPEAT)


def skeleton(text: bytes) -> bytes:
    """The text without spaces and the digits of decimal and hexadecimal numbers, in which most lines of a log differ.

    A text that contains another one has its skeleton, too.
    """
    return text.translate(None, b" 0123456789abcdef")


def skeleton_of(text: str) -> bytes:
    """The skeleton of a text in UTF-8."""
    return skeleton(text.encode("utf-8", "replace"))


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
            if kind is sre_constants.LITERAL:
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


def _skeletons(clauses: Iterable[Clause]) -> list[frozenset[bytes]]:
    """What the skeleton of a match has of each clause, the most telling first."""
    bones = [frozenset(map(skeleton_of, clause)) for clause in clauses]
    telling = [clause for clause in bones if min(map(len, clause)) >= SHORTEST]
    return sorted(telling, key=lambda clause: min(map(len, clause)), reverse=True)


class Filter:
    """Patterns by the texts that each match of theirs contains. Raises `ValueError` for one that has none."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._alternatives: list[tuple[int, list[frozenset[bytes]]]] = []
        self._places: dict[bytes, list[int]] = {}
        for place, pattern in enumerate(patterns):
            for clauses in map(_skeletons, required(pattern)):
                if not clauses:
                    raise ValueError(f"an alternative of {pattern!r} has no text that each match contains")
                for text in clauses[0]:
                    self._places.setdefault(text, []).append(len(self._alternatives))
                self._alternatives.append((place, clauses[1:]))

    def places(self, skeleton: bytes) -> tuple[int, ...]:
        """The places of the patterns that may match a text with this skeleton, in order."""
        numbers = {number for text, places in self._places.items() if text in skeleton for number in places}
        near = (self._alternatives[number] for number in numbers)
        return tuple(sorted({place for place, clauses in near if _has_all(skeleton, clauses)}))


def _has_all(skeleton: bytes, clauses: Iterable[frozenset[bytes]]) -> bool:
    return all(any(text in skeleton for text in clause) for clause in clauses)
