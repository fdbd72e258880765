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

MOST_ANSWERS = 4096
"""Number of skeletons whose answer is remembered."""

MOST_TEXTS = 64
"""Maximum number of texts that are put together from choices."""

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
    """Reads a sequence of a parsed pattern, and collects the clauses and the texts that may stand before the next part.

    Texts are put together as far as the pattern is made of characters and choices between texts: a long text is in
    fewer lines than its parts.
    """

    def __init__(self) -> None:
        self.clauses: list[Clause] = []
        self._texts = {""}

    def read(self, parts: Iterable[Any]) -> list[Clause]:
        self._sequence(parts)
        self._end()
        return self.clauses

    def _sequence(self, parts: Iterable[Any]) -> None:
        for kind, value in parts:
            if kind is sre_constants.SUBPATTERN and not (value[1] & re.IGNORECASE):
                self._sequence(value[-1])
            elif (texts := _texts((kind, value))) is not None:
                self._follow(texts)
            elif kind not in _ZERO_WIDTH:
                self._end()
                self._other(kind, value)

    def _follow(self, texts: set[str]) -> None:
        if len(self._texts) * len(texts) > MOST_TEXTS:
            self._end()
        self._texts = {before + text for before in self._texts for text in texts}

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
            self.clauses.append(_shortest({text for clause in best if clause for text in clause}))

    def _end(self) -> None:
        if min(map(len, self._texts)) >= SHORTEST:
            self.clauses.append(_shortest(self._texts))
        self._texts = {""}


def _texts(part: Any) -> set[str] | None:
    """The texts of a part of a pattern that is nothing but characters and choices; None for another one."""
    kind, value = part
    if kind is sre_constants.LITERAL:
        return {chr(value)}
    if kind is sre_constants.IN and all(member is sre_constants.LITERAL for member, _ in value):
        return {chr(code) for _, code in value}
    if kind is sre_constants.SUBPATTERN and not (value[1] & re.IGNORECASE):
        return _texts_of(value[-1])
    if kind is sre_constants.BRANCH:
        branches = [_texts_of(branch) for branch in value[1]]
        if None not in branches:
            return set().union(*(texts for texts in branches if texts))
    return None


def _texts_of(parts: Iterable[Any]) -> set[str] | None:
    texts = {""}
    for part in parts:
        following = {""} if part[0] in (sre_constants.AT,) else _texts(part)
        if following is None or len(texts) * len(following) > MOST_TEXTS:
            return None
        texts = {before + text for before in texts for text in following}
    return texts


def _shortest(texts: set[str]) -> Clause:
    """The texts without those that contain another one."""
    return frozenset(text for text in texts if not any(short in text for short in texts - {text}))


def _worth(clause: Clause) -> int:
    return min(len(skeleton_of(text)) for text in clause)


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
        self._answers: dict[bytes, tuple[int, ...]] = {}
        for place, pattern in enumerate(patterns):
            for clauses in map(_skeletons, required(pattern)):
                if not clauses:
                    raise ValueError(f"an alternative of {pattern!r} has no text that each match contains")
                for text in clauses[0]:
                    self._places.setdefault(text, []).append(len(self._alternatives))
                self._alternatives.append((place, clauses[1:]))

    def places(self, skeleton: bytes) -> tuple[int, ...]:
        """The places of the patterns that may match a text with this skeleton, in order."""
        if skeleton not in self._answers:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[skeleton] = self._look(skeleton)
        return self._answers[skeleton]

    def _look(self, skeleton: bytes) -> tuple[int, ...]:
        numbers = {number for text, places in self._places.items() if text in skeleton for number in places}
        near = (self._alternatives[number] for number in numbers)
        return tuple(sorted({place for place, clauses in near if _has_all(skeleton, clauses)}))


def _has_all(skeleton: bytes, clauses: Iterable[frozenset[bytes]]) -> bool:
    return all(any(text in skeleton for text in clause) for clause in clauses)
