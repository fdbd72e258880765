"""Read TOML files as typed records; every deviation is reported in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from . import codec
from .errors import UsageError
from .phrases import did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

T = TypeVar("T")

LARGEST = 16 << 20
"""Largest TOML file in bytes; a device or a pipe may have no end."""

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for data that is not JSON, not UTF-8, too deeply nested, or not of the expected type."""


def read_toml(path: Path | Traversable, type: type[T]) -> T:
    """Read the TOML file `path` as a `type` (a `Value`, or any type that msgspec validates).

    Raises `UsageError` with the file and the key: unreadable file, TOML syntax, a missing or unknown key (with a
    suggestion), a value of the wrong type.
    """
    return convert(parse_toml(path), type, str(path))


def parse_toml(path: Path | Traversable) -> dict[str, Any]:
    """Read the TOML file `path` as plain dicts and lists. Raises `UsageError` if it cannot be read or is not TOML."""
    return parse_toml_bytes(read_bytes(path), str(path))


def read_bytes(path: Path | Traversable) -> bytes:
    """The content of a file for `parse_toml_bytes`. Raises `UsageError` if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def parse_toml_bytes(data: bytes, source: str) -> dict[str, Any]:
    """The same for the content of a file, at most one byte more than `LARGEST`; `source` names it in errors."""
    import tomli  # compiled: needs a third of the standard library's time, and every command reads TOML

    if len(data) > LARGEST:
        raise UsageError(f"{source}: larger than {LARGEST >> 20} MiB, which no TOML file of llmbx is")
    try:
        return tomli.loads(data.decode().replace("\r\n", "\n").replace("\r", "\n"))
    except (ValueError, RecursionError) as error:  # invalid TOML or UTF-8, or a number of thousands of digits
        raise UsageError(f"{source}: not valid TOML: {error}") from error


def convert(data: object, type: type[T], source: str) -> T:
    """Convert `data` (plain dicts and lists) to a `type`. `source` names its origin in the `UsageError`."""
    try:
        return codec.convert(data, type)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {explain(str(error), type, data)}") from error


def explain(message: str, type: Any, data: object = None) -> str:
    """Shorten a validation message of msgspec to the place and the fault, with a suggestion if one is close.

    `message` ends in " - at `$.rows[3].tp`" unless the fault is at the top level. A key of a table with free names
    stands as `[...]` there; it is named if the `data` is given.
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
        what = _in_words(what.replace("`", ""))
    if data is not None:
        place = _named(place, data, type, message)
    return (f"at {place}: " if place else "") + what + hint


def _named(place: str, data: Any, type: Any, message: str) -> str:
    """The place with the keys that `[...]` stands for: the table with such a key alone has the same fault."""
    before, free, after = place.partition("[...]")
    parts = before.split(".") if before else []
    table = data
    for part in parts:
        table = table.get(part) if isinstance(table, dict) else None
    for key in table if free and isinstance(table, dict) else ():
        alone = _with(data, parts, {key: table[key]})
        if _fault(alone, type) == message:
            return _named(".".join([*parts, f"{key}{after}"]), alone, type, message)
    return place


def _with(data: dict[str, Any], parts: list[str], table: dict[str, Any]) -> dict[str, Any]:
    """A copy of the data with this table at the path `parts`."""
    return {**data, parts[0]: _with(data[parts[0]], parts[1:], table)} if parts else table


def _fault(data: object, type: Any) -> str | None:
    try:
        codec.convert(data, type)
    except msgspec.ValidationError as error:
        return str(error)
    return None


_TYPES = {"int": "an integer", "float": "a number", "str": "a text", "bool": "true or false", "object": "a table",
          "array": "a list"}  # fmt: skip


def _in_words(text: str) -> str:
    """`Expected int >= 0` as `expected an integer >= 0`; other messages as they are."""
    match = re.match(r"Expected (\w+)((?: \| \w+)*)", text)
    if match is None:
        return text
    names = [name for name in (match[1], *match[2].split(" | ")) if name and name != "null"]
    return f"expected {' or '.join(_TYPES.get(name, name) for name in names)}{text[match.end() :]}"


def _choices(type: Any, place: str) -> list[str]:
    """Keys of a record, or values of a Literal, that are valid at `place`, a path such as `sizes[...].model`."""
    from msgspec import inspect as look

    node: Any = look.type_info(type)
    for name, _ in re.findall(r"(\w+)|(\[[^][]*\])", place):
        node = _step(node, name)
    for option in _options(node):
        if isinstance(option, look.StructType):
            return [field.encode_name for field in option.fields]
        if isinstance(option, look.LiteralType):
            return [str(value) for value in option.values]
    return []


def _step(node: Any, name: str) -> Any:
    """The type of member `name` of `node`, or of its elements if `name` is empty; None if there is none."""
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
