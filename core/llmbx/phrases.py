"""Phrases of messages: counts, numbers, sizes and lists, and what an unknown word was meant to be.

Words are compared with those of other tools first, then by their spelling.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def plural(number: int | None, things: str, thing: str = "") -> str:
    """A count: `1 line`, `2,000 lines`. `thing` is the singular of `things`, if it has more than an s less."""
    if number is None:
        return f"an unknown number of {things}"
    return f"{number:,} {(thing or things.removesuffix('s')) if number == 1 else things}"


def format_number(value: float) -> str:
    """Format a number with its significant digits: `1,572`, `5.431`, `0.0331`, `1.2e-07`."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "not finite"
    size = abs(value)
    if value and not 1e-4 <= size < 1e15:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """A time in words: `40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    days, hours = divmod(minutes // 60, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def format_bytes(size: float) -> str:
    """A number of bytes with a decimal unit: `612 kB`, `61 MB`, `18.2 GB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB" if size < 1000 else f"{size / 1000:.1f} TB"


def listed(names: Sequence[object], most: int) -> str:
    """The first `most` names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more:,} more" if more > 0 else "")


def either(options: Iterable[object], prefix: str = "") -> str:
    """ "2, 4 or 8", each with `prefix`; "nothing" if there are no options."""
    texts = [f"{prefix}{option}" for option in options]
    if len(texts) < 2:
        return texts[0] if texts else "nothing"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The suffix `: use X` or ` (did you mean 'X'?)` (see `near`), else ` (known: …)`."""

    names = sorted(set(known))
    return near(word, names) or (f" (known: {', '.join(names)})" if names else "")


MOST = 3
"""The most names that are suggested at once."""
LONG = 4
"""The most digits of a number in a name; ids and times have more."""
CLOSE = 0.75
CLOSE_WITH_DIGITS = 0.8
CLOSE_SHORT = 0.65
"""The smallest similarity of a typing error, as difflib measures it: of A100 and H100 it is 0.75, of words of three
letters that differ in one 0.67.
"""

FAMILY = re.compile(r"([a-z]{3,99})-?(\d{1,3})")
"""The letters and the first number of a name."""


@functools.cache
def synonyms_of_tools() -> Mapping[str, str]:
    """The words of other tools for what llmbx has, by the phrase that is suggested."""
    import tomli

    return tomli.loads((Path(__file__).parent / "data" / "synonyms.toml").read_text(encoding="utf-8"))


def near(word: str, known: Iterable[str]) -> str:
    """What `word` was meant to be: `: use X`, ` (did you mean 'X'?)`, or empty."""
    names = sorted(set(known))
    if phrase := synonym(word, names):
        return f": use {phrase}"
    meant = alike(word, names)
    return f" (did you mean {either(map(repr, meant))}?)" if meant else ""


def synonym(word: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str | None:
    """The phrase for a word that begins with a known name; None if there is none. By default other tools' words."""
    names = set(known)
    pairs = (synonyms_of_tools() if synonyms is None else synonyms).items()
    phrases = (phrase for phrase, words in pairs if word in words.split())
    return next((phrase for phrase in phrases if re.split("[ =]", phrase)[0] in names), None)


def alike(word: str, known: Iterable[str]) -> list[str]:
    """The names that the word may be a typing error of, nearest first.

    Those that differ in digits are others: an A100 is no misspelled H100.
    """
    from difflib import get_close_matches

    typed = word.lower().lstrip("-")
    names = {name.lower().lstrip("-"): name for name in known}
    begun = [name for name in names if _begins(name, typed)]
    if 0 < len(begun) <= MOST:
        return [names[name] for name in sorted(begun)]
    same = [name for name in names if not _digits(typed) or _digits(name) == _digits(typed)]
    cutoff = CLOSE_WITH_DIGITS if _digits(typed) else CLOSE_SHORT if len(typed) <= 3 else CLOSE
    close = get_close_matches(typed, same, n=1, cutoff=cutoff)
    swapped = [name for name in same if sorted(name) == sorted(typed)]
    parts = [name for name in names if _has(typed, name)]
    family = [name for name in names if _is_family(typed, name)]
    return [names[name] for name in close or swapped or parts[:MOST] or family[:MOST]]


def _is_family(text: str, name: str) -> bool:
    """Whether a text is another version of a name: `lama3` and `llama3-8b` of `llama3.1`."""
    from difflib import SequenceMatcher

    typed, own = FAMILY.match(text), FAMILY.match(name)
    if not (typed and own and own[2].startswith(typed[2])):
        return False
    return SequenceMatcher(None, typed[1], own[1]).ratio() >= CLOSE_WITH_DIGITS


def _begins(text: str, start: str) -> bool:
    """Whether a text begins with another one, which does not end within a number."""
    return bool(start) and text.startswith(start) and not (start[-1].isdigit() and text[len(start) :][:1].isdigit())


def _has(text: str, name: str) -> bool:
    """Whether a text has a name that is not a part of a longer word."""
    place = text.find(name)
    around = text[:place][-1:] + text[place:][len(name) : len(name) + 1]
    return place >= 0 and not any(letter.isalnum() or letter == "." for letter in around)


def _digits(text: str) -> list[str]:
    """The digits of a name in any order, without its version (`torch==2.1`); none of an id with a long number."""
    numbers = re.findall(r"\d+", text.partition("==")[0])
    return [] if any(len(number) > LONG for number in numbers) else sorted("".join(numbers))
