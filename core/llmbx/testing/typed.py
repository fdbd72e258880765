"""Check the field types of records that a plugin made: records are validated when read, not when made."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import msgspec

from ..codec import convert
from ..model import Value


def ill_typed(value: object, type_: type[Value], what: str) -> Iterator[str]:
    """Yield why `value` is not a valid `type_`; nothing if it is. `what` names the function that returned it."""
    if not isinstance(value, type_):
        yield f"{what} returned a {type(value).__name__}, expected a {type_.__name__}"
        return
    try:
        again = convert(msgspec.to_builtins(value), type_)
    except (TypeError, msgspec.ValidationError) as error:
        yield f"{what} returned a {type_.__name__} with a value of the wrong type: {error}"
        return
    for name in value.__struct_fields__:
        if type(getattr(again, name)) is not type(getattr(value, name)):
            kind, expected = type(getattr(value, name)).__name__, type(getattr(again, name)).__name__
            yield f"{what} returned a {type_.__name__} whose {name} is a {kind}, expected a {expected}"


def all_typed(values: object, type_: type[Value], what: str) -> Iterator[str]:
    """Yield the problems of a list or tuple of records."""
    if not isinstance(values, list | tuple):
        yield f"{what} returned a {type(values).__name__}, expected a list of {type_.__name__}"
        return
    for value in values:
        yield from ill_typed(value, type_, what)


def public(protocol: type) -> tuple[list[str], list[str]]:
    """Return the names of a protocol's attributes and of the methods that llmbx calls: static ones are helpers."""
    members = [name for name in typing.get_type_hints(protocol) if not name.startswith("_")]
    called = {name: value for name, value in vars(protocol).items() if not isinstance(value, staticmethod)}
    methods = [name for name, value in called.items() if callable(value) and not name.startswith("_")]
    return members, methods
