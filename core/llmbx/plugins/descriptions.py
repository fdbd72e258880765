"""What a plugin gave in place of what was expected, in words."""

from __future__ import annotations

import re

_WORDS = {"array": "a list or tuple", "object": "a record", "null": "None", "bytes": "bytes"}
"""The validator's names of types, and how messages call them."""


def describe_type(value: object) -> str:
    """Describe an object by its type: "an int", "None", "the class ToyParser"."""
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """Return a noun with its article: 'a Launch', 'an Image'."""
    return f"{'an' if noun[0] in 'AEIOaeio' else 'a'} {noun}"


def describe_error(error: Exception) -> str:
    """Convert the validator's message: `phases[0].argv: expected a list or tuple, got a str`."""
    text, _, place = str(error).partition(" - at ")
    if text.startswith("Expected"):
        text = re.sub("`([^`]+)`", _types, text)
    text = text[:1].lower() + text[1:].replace("`", "")
    where = place.replace("`", "").removeprefix("$").lstrip(".")
    return f"{where}: {text}" if where else text


def _types(match: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(word) or with_article(word) for word in match[1].split(" | "))
