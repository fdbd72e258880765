"""Validate what plugins return; errors name the plugin, the call and the field."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..codec import convert
from ..errors import ImpossibleValueError, PluginError
from ..launchers.base import Launcher
from ..logs.parser import LogParser
from ..model import Launch, Value
from ..model.flops import Flops
from ..model.settings import Settings, fields
from ..runtimes.base import Runtime
from .descriptions import describe_error, describe_type, with_article

REQUIRED = frozenset({"prepare_image", "build_command"})
"""Hooks for which the plugin of a run's workload must return something."""

MOST_RANKS = 1_000_000
"""Maximum number of ranks of a launch: a larger number is a mistake."""

INTERFACES = (Launcher, Runtime, LogParser)
"""Types that plugins implement; all others are records, or classes of llmbx."""


class Returns(typing.NamedTuple):
    """What a function returns, from its annotation: a value of `kind`, or if `many` a sequence of them."""

    many: bool
    kind: Any
    optional: bool = False


def validate(what: str, hook: Callable[..., Any], answer: Any) -> Any:
    """Return the validated return value of one plugin's hook, with lists converted to tuples in records.

    `what` names plugin and `hook`, the specification, in errors. Raises `PluginError` if the value is invalid.
    """
    return None if answer is None else validate_answer(what, method_returns(hook), answer)


def validate_wrapped(what: str, hook: Callable[..., Any], answer: Any) -> Any:
    """Return the validated answer of a hook wrapper, which is a list of answers for a hook that collects them.

    Raises `PluginError` if it is invalid.
    """
    kind = method_returns(hook)
    assert kind is not None
    if not kind.many:
        if answer is None and hook.__name__ in REQUIRED:
            raise PluginError(f"{what} returned None, expected {with_article(kind.kind.__name__)}")
        return validate(what, hook, answer)
    if not isinstance(answer, list):
        raise PluginError(f"{what} returned {describe_type(answer)}, expected the list of answers that its yield gave")
    return [validate(what, hook, each) for each in answer if each is not None]


def validate_answer(what: str, returns: Returns | None, answer: Any) -> Any:
    """Return a validated value; `what` names it in errors. Raises `PluginError` if it is invalid."""
    if returns is None or (answer is None and returns.optional):
        return answer
    kind = returns.kind
    if not returns.many:
        return _validate_value(what, kind, answer)
    if isinstance(answer, str | bytes) or not isinstance(answer, Sequence):
        raise PluginError(f"{what} returned {describe_type(answer)}, expected a list of {kind.__name__}")
    return [
        _validate_value(what, kind, item, f"a list with {describe_type(item)}", f"a list of {kind.__name__}")
        for item in answer
    ]


@functools.cache
def method_returns(method: Callable[..., Any]) -> Returns | None:
    """Return what a method returns; None if it returns nothing."""
    # The types of the arguments need not be there when the program runs.
    return _returns(eval(method.__annotations__["return"], method.__globals__))


def _returns(annotation: Any) -> Returns | None:
    optional = False
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        (annotation,) = (part for part in typing.get_args(annotation) if part is not type(None))
        optional = True
    if annotation is None:
        return None
    origin = typing.get_origin(annotation)
    if origin is Sequence:
        return Returns(True, typing.get_args(annotation)[0], optional)
    return Returns(False, annotation if origin in (None, type) else origin, optional)


def _validate_value(what: str, kind: Any, value: Any, got: str = "", expected: str = "") -> Any:
    """Validate one value. Raises `PluginError` if it is not a valid `kind`.

    `got` and `expected` describe the actual and the expected value in an error about its type.
    """
    if typing.get_origin(kind) is type:
        return _validate_class(what, typing.get_args(kind)[0], value)
    got, expected = got or describe_type(value), expected or with_article(kind.__name__)
    if kind in INTERFACES:
        if missing := _missing_members(kind, value):
            raise PluginError(f"{what} returned {got}, expected {expected}: {missing}")
        return value
    if not isinstance(value, kind):
        raise PluginError(f"{what} returned {got}, expected {expected}")
    return _validate_record(what, kind, value) if issubclass(kind, Value) else value


def _validate_class(what: str, base: type, value: Any) -> Any:
    """Validate a class. Raises `PluginError` if it is not a subclass of `base` with fields of supported types."""
    if not (isinstance(value, type) and issubclass(value, base)):
        raise PluginError(f"{what} returned {describe_type(value)}, expected a subclass of {base.__name__}")
    if issubclass(value, Settings):
        try:
            fields(value)
            value()
        except TypeError as error:
            raise PluginError(f"{what} returned an invalid class: {error}") from None
    return value


def _missing_members(kind: type, value: Any) -> str:
    """Describe why an object cannot be used as one of `kind`, an interface; empty if it can."""
    if isinstance(value, type):
        return "this is the class, expected an instance"
    if not isinstance(value, kind):
        return f"its class must inherit from llmbx.api.{kind.__name__}"
    missing = [n for n in kind.__annotations__ if not hasattr(value, n)]
    if missing:
        return f"it has no {', '.join(missing)}"
    return "" if isinstance(getattr(value, "name", ""), str) else "its name is not a string"


def _validate_record(what: str, kind: type[Value], value: Value) -> Value:
    """Validate the types of all members of a record: records are not checked when they are made in Python."""
    try:
        plain = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=False, enc_hook=_plain)
        record: Value = convert(plain, kind, builtin_types=(bytes,))
    except (TypeError, ValueError, RecursionError) as error:
        raise PluginError(f"{what} returned an invalid {kind.__name__}: {describe_error(error)}") from None
    if isinstance(record, Launch) and not record.phases:
        raise PluginError(f"{what} returned a Launch without phases, expected at least one")
    if isinstance(record, Launch) and record.world_size > MOST_RANKS:
        raise PluginError(f"{what} returned a Launch of {record.world_size} ranks, expected at most {MOST_RANKS}")
    if isinstance(record, Flops) and not all(0 < flops < float("inf") for flops in (record.full, record.causal)):
        raise ImpossibleValueError(
            f"{what} returned {record.full:g} and {record.causal:g} FLOPs, expected numbers above 0"
        )
    return record


def _plain(value: object) -> object:
    """Convert numbers and strings of other libraries to Python's own types."""
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"it contains {describe_type(value)}, expected plain values")
