"""Strict TOML: a file is read into a frozen record, and everything that does not fit is one clear line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from . import codec
from .errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

T = TypeVar("T")

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a file that is no JSON, no UTF-8, nested without end, or not of the type that is wanted."""


def read_toml(path: Path | Traversable, type: type[T]) -> T:
    """The TOML file `path` as a record of `type` (a `Value`, or any type that msgspec validates).

    Raises `UsageError` that names the file and the place in it: unreadable file, TOML syntax, a missing or unknown key
    (with a suggestion), a value of the wrong kind.
    """
    return convert(parse_toml(path), type, str(path))


def parse_toml(path: Path | Traversable) -> dict[str, Any]:
    """The TOML file `path` as plain dicts and lists. Raises `UsageError` when it cannot be read or is not TOML."""
    import tomli  # compiled: a third of the standard library's time, which every command waits for

    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # of TOML's grammar, of UTF-8, of a number of 5,000 digits
        raise UsageError(f"{path}: not valid TOML: {error}") from error


def convert(data: object, type: type[T], source: str) -> T:
    """`data` (plain dicts and lists) as a record of `type`; `source` names its origin in the `UsageError`."""
    try:
        return codec.convert(data, type)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {explain(str(error), type)}") from error


def explain(message: str, type: Any) -> str:
    """A validation message of msgspec, shortened to the place and the fault, with a suggestion where one is near.

    `message` ends in " - at `$.rows[3].tp`" unless the fault is at the top.
    """
    what, _, where = message.partition(" - at `$")
    place = where.rstrip("`").lstrip(".")
    hint = ""
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        what = f"unknown key '{unknown[1]}'"
        hint = did_you_mean(unknown[1], _choices(type, place))
    elif missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        what = f"the key '{missing[1]}' is missing"
    elif bad := re.fullmatch(r"Invalid enum value '?(.*?)'?", what):
        what = f"unknown value '{bad[1]}'"
        hint = did_you_mean(bad[1], _choices(type, place))
    else:
        what = what.replace("`", "")
    return (f"at {place}: " if place else "") + what + hint


def _choices(type: Any, place: str) -> list[str]:
    """The keys of a record, or values of a Literal, that fit at `place`, a path such as `sizes[...].model`."""
    from msgspec import inspect as look

    node: Any = look.type_info(type)
    for name, _ in re.findall(r"(\w+)|(\[[^]]*\])", place):
        node = _step(node, name)
    for option in _options(node):
        if isinstance(option, look.StructType):
            return [field.encode_name for field in option.fields]
        if isinstance(option, look.LiteralType):
            return [str(value) for value in option.values]
    return []


def _step(node: Any, name: str) -> Any:
    """The type of member `name` of `node`, or of its elements when `name` is empty; None when there is none."""
    for option in _options(node):
        if name:
            for field in getattr(option, "fields", ()):
                if field.encode_name == name:
                    return field.type
        elif element := getattr(option, "value_type", None) or getattr(option, "item_type", None):
            return element
    return None


def _options(node: Any) -> tuple[Any, ...]:
    """The members of a union, or `node` alone."""
    return tuple(getattr(node, "types", (node,)))
