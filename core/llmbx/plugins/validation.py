"""Whether a plugin's answer is what its hook promises, checked where it enters: a wrong one is told with its place."""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Sequence
from typing import Any

import msgspec

from .. import hookspecs
from ..codec import convert
from ..config.install import Install
from ..errors import PluginError
from ..launchers.base import Launcher
from ..logs.parser import LogFormat, LogParser
from ..model import Figure, Finding, Image, ImageRequest, Launch, Profiler, RunGroup, RunSpec, Section, Value, Workload
from ..model.flops import Flops
from ..model.settings import Settings, fields
from ..runtimes.base import Runtime

_NAMES = {
    kind.__name__: kind
    for kind in (
        Figure,
        Finding,
        Flops,
        Image,
        ImageRequest,
        Install,
        Launch,
        LogFormat,
        LogParser,
        Profiler,
        RunGroup,
        RunSpec,
        Section,
        Workload,
    )
} | {"Launcher": Launcher, "Runtime": Runtime, "Settings": Settings}
"""What the annotations of the hooks name."""

_OPTIONAL = {"check"}
"""Members of a runtime that `llmbx doctor` does without."""

_WORDS = {"array": "a list or tuple", "object": "a record", "null": "None", "bytes": "bytes"}
"""The validator's words for types, where Python's are others."""


def checked(what: str, hook: str, answer: Any) -> Any:
    """The answer of one plugin to one hook, lists where tuples belong made right. `what` names both in the error.

    Raises `PluginError`.
    """
    many, kind = promised(hook)
    if answer is None:
        return None
    if not many:
        return value(what, kind, answer)
    if isinstance(answer, str | bytes) or not isinstance(answer, Sequence):
        raise PluginError(f"{what} returned {named(answer)}, expected a list of {kind.__name__}")
    return [value(what, kind, item, f"a list with {named(item)}", f"a list of {kind.__name__}") for item in answer]


@functools.cache
def promised(hook: str) -> tuple[bool, type]:
    """What the hook's annotation says: whether it returns several, and of which type."""
    found = typing.get_type_hints(getattr(hookspecs, hook), localns=_NAMES)["return"]
    if typing.get_origin(found) is Sequence:
        return True, typing.get_args(found)[0]
    return False, without_none(found)


def without_none(annotation: Any) -> Any:
    """The annotation without `| None`."""
    if not isinstance(annotation, types.UnionType) and typing.get_origin(annotation) is not typing.Union:
        return annotation
    return next(part for part in typing.get_args(annotation) if part is not type(None))


def value(what: str, kind: Any, given: Any, got: str = "", expected: str = "") -> Any:
    """One value of an answer. `got` and `expected` are words for an error about its type."""
    if typing.get_origin(kind) is type:
        return _class(what, typing.get_args(kind)[0], given)
    got, expected = got or named(given), expected or with_article(kind.__name__)
    if getattr(kind, "_is_protocol", False):
        missing = lacks(kind, given)
        if missing:
            raise PluginError(f"{what} returned {got}, expected {expected}: {missing}")
        return given
    if not isinstance(given, kind):
        raise PluginError(f"{what} returned {got}, expected {expected}")
    return _whole(what, kind, given) if issubclass(kind, Value) else given


def _class(what: str, base: type, given: Any) -> Any:
    """A class of a plugin's. Raises `PluginError` for anything but a subclass of `base` with fields llmbx can read."""
    if not (isinstance(given, type) and issubclass(given, base)):
        raise PluginError(f"{what} returned {named(given)}, expected a subclass of {base.__name__}")
    if issubclass(given, Settings):
        try:
            fields(given)
            given()
        except TypeError as error:
            raise PluginError(f"{what} returned a wrong class: {error}") from None
    return given


def lacks(protocol: type, given: Any) -> str:
    """What an object lacks of an interface, in words; empty when it has everything."""
    if isinstance(given, type):
        return "that is the class, not an object of it"
    methods = [n for n, member in vars(protocol).items() if callable(member) and not n.startswith("_")]
    missing = [n for n in protocol.__annotations__ if not hasattr(given, n)]
    missing += [n for n in methods if n not in _OPTIONAL and not callable(getattr(given, n, None))]
    if missing:
        return f"it has no {', '.join(missing)}"
    if not isinstance(getattr(given, "name", ""), str):
        return "its name is no text"
    return ""


def named(given: object) -> str:
    """An object in words: "an int", "None", "the class ToyParser"."""
    if given is None:
        return "None"
    return f"the class {given.__name__}" if isinstance(given, type) else with_article(type(given).__name__)


def with_article(noun: str) -> str:
    """'a Launch', 'an Image'."""
    return f"{'an' if noun[0] in 'AEIOaeio' else 'a'} {noun}"


def _whole(what: str, kind: type[Value], given: Value) -> Value:
    """The record with all its members of their types: records check nothing when they are made in Python."""
    try:
        plain = msgspec.to_builtins(given, builtin_types=(bytes,), str_keys=False, enc_hook=_plain)
        whole: Value = convert(plain, kind, builtin_types=(bytes,))
    except (TypeError, ValueError, RecursionError) as error:
        raise PluginError(f"{what} returned a wrong {kind.__name__}: {told(error)}") from None
    if isinstance(whole, Launch) and not whole.phases:
        raise PluginError(f"{what} returned a Launch without phases, expected at least one")
    return whole


def _plain(given: object) -> object:
    """Numbers and texts of other libraries as Python's own."""
    for kind in (int, float, str):
        if isinstance(given, kind):
            return kind(given)
    raise TypeError(f"it holds {named(given)}, expected plain values")


def told(error: Exception) -> str:
    """The validator's complaint in our words: `phases[0].argv: expected a list or tuple, got a str`."""
    text, _, place = str(error).partition(" - at ")
    if text.startswith("Expected"):
        text = re.sub("`([^`]+)`", _types, text)
    text = text[:1].lower() + text[1:].replace("`", "")
    where = place.replace("`", "").removeprefix("$").lstrip(".")
    return f"{where}: {text}" if where else text


def _types(match: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(word) or with_article(word) for word in match[1].split(" | "))
