"""A pytest plugin: golden files, which a person has read, beside the tests that compare texts with them.

`golden(name, text)` compares a text with the file golden/NAME beside the test module. Where texts are mostly the same,
a few of them are kept as wholes, and the others with `golden(name, text, like={name of a whole: its text})`: every run
of lines that also stands in a whole, or earlier in the text itself, is folded to a line

    … NAME OF THE WHOLE: FIRST LINE … LAST LINE
    … above: FIRST LINE … LAST LINE

A fold stands for exactly these lines as the whole has them now: `LINE (2)` is the second such line, and lines without
letters and digits belong to the line before them. A change of common lines is therefore shown by the whole alone, and a
text that lacks or changes one of them no longer has the same folds.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

LEAST_LINES = 4
"""Shorter runs are not folded."""

LABEL = 60
"""Number of characters that name a line in a fold."""

ABOVE = "above"
_WORD = re.compile(r"\w")


class Golden(Protocol):
    """The type of the fixture `golden`."""

    def __call__(self, name: str, text: str, like: Mapping[str, str] = ...) -> None:
        """Compare `text` with the file golden/`name`, folded by the wholes in `like` except itself."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes golden files."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)`: `text` equals the file golden/<name> beside the test module."""
    folder = Path(request.path).parent / "golden"
    command = f"pytest --update-golden {shlex.quote(request.node.nodeid)}"

    def check(name: str, text: str, like: Mapping[str, str] = {}) -> None:
        wholes = {whole: content for whole, content in like.items() if whole != Path(name).name}
        kept = folded(text, wholes) if like else text
        if request.config.getoption("--update-golden"):
            write(folder / name, kept)
        else:
            compare(folder / name, kept, command)

    return check


def write(path: Path, text: str) -> None:
    """Write a golden file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def compare(path: Path, text: str, command: str) -> None:
    """Fail with a unified diff if `text` differs from a golden file, and say that `command` writes it."""
    kept = path.read_text() if path.is_file() else None
    if kept != text:
        problem = f"there is no golden file {path}" if kept is None else difference(path, kept, text)
        pytest.fail(f"{problem}\n\nIf the new text is right, write it with: {command}", pytrace=False)


def difference(path: Path, kept: str, text: str) -> str:
    """Return the lines in which `text` differs from a golden file, with two lines around them."""
    lines = difflib.unified_diff(kept.split("\n"), text.split("\n"), str(path), "the text now", n=2, lineterm="")
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Run:
    """Parts of a text that also stand in a pool of parts, in the same order."""

    name: str
    pool: Sequence[str]
    start: int
    count: int

    @property
    def lines(self) -> int:
        """The number of its lines."""
        return sum(part.count("\n") for part in self.pool[self.start : self.start + self.count])

    def fold(self) -> str:
        """The line that stands for it."""
        labels = [_label(part) for part in self.pool[: self.start + self.count]]
        first = _numbered(labels[self.start], labels[: self.start])
        last = _numbered(labels[-1], labels[self.start : -1])
        return f"… {self.name}: {first} … {last}\n"


def folded(text: str, wholes: Mapping[str, str]) -> str:
    """Return `text` with its runs of lines that stand in `wholes` or earlier in the text folded."""
    parts = _parts(text)
    pools = {name: _parts(whole) for name, whole in wholes.items()}
    kept = []
    at = 0
    while at < len(parts):
        runs = list(_runs(parts, at, {**pools, ABOVE: parts[:at]}))
        longest = max(runs, key=lambda run: run.lines, default=None)
        if longest is not None and longest.lines >= LEAST_LINES:
            kept.append(longest.fold())
            at += longest.count
        else:
            kept.append(parts[at])
            at += 1
    return "".join(kept)


def _parts(text: str) -> list[str]:
    """The lines of a text, each with the lines after it that have no letter or digit: braces and empty lines."""
    parts: list[str] = []
    for line in text.splitlines(keepends=True):
        if parts and not _WORD.search(line):
            parts[-1] += line
        else:
            parts.append(line)
    return parts


def _runs(parts: Sequence[str], at: int, pools: Mapping[str, Sequence[str]]) -> Iterator[Run]:
    """All runs in the pools that begin with the part at `at`."""
    for name, pool in pools.items():
        for start, part in enumerate(pool):
            if part == parts[at]:
                yield Run(name, pool, start, _shared(parts[at:], pool[start:]))


def _shared(parts: Sequence[str], pool: Sequence[str]) -> int:
    """How many parts at the start of both are the same."""
    pairs = zip(parts, pool, strict=False)
    return next((n for n, (part, other) in enumerate(pairs) if part != other), min(len(parts), len(pool)))


def _label(part: str) -> str:
    return part.splitlines()[0].strip()[:LABEL]


def _numbered(label: str, before: Sequence[str]) -> str:
    """The label, with its number if lines before it have the same."""
    count = before.count(label)
    return f"{label} ({count + 1})" if count else label
