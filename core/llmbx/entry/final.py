"""Write the framework's final configuration as one flat JSON object: `configs/final.json`.

Objects and dictionaries are flattened into dotted keys; `X.class` is the class of the object at X. A function is
`{"callable": name}`, with `args` and `kwargs` if it is a partial; an enum member and a dtype are their names.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
from pathlib import Path
from typing import Any

FILE = "configs/final.json"
"""Relative to the run folder."""


def write(configuration: Any, versions: dict[str, str], folder: Path = Path()) -> None:
    """Flatten and write the configuration, with the versions of the packages."""
    write_flat(flat(configuration), versions, folder)


def write_flat(found: dict[str, Any], versions: dict[str, str], folder: Path = Path()) -> None:
    """Write a flat configuration, with the versions of the packages."""
    path = folder / FILE
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({"versions": versions, "final": found}, indent=1, sort_keys=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)


def flat(configuration: Any) -> dict[str, Any]:
    """Return every value of a configuration by its dotted key, sorted."""
    fields: dict[str, Any] = {}
    for name, value in members(configuration).items():
        spread(name, value, fields, (id(configuration),))
    return dict(sorted(fields.items()))


def spread(name: str, value: Any, found: dict[str, Any], above: tuple[int, ...]) -> None:
    """Add `value` to `found` under `name`, an object or a dictionary as several keys.

    `above` are the ids of the enclosing objects, to detect cycles.
    """
    if isinstance(value, dict) and value:
        for key, item in value.items():
            spread(f"{name}.{key}", item, found, above)
    elif is_object(value):
        found[f"{name}.class"] = qualified(type(value))
        if id(value) in above:
            found[f"{name}.repeated"] = True
            return
        for key, item in members(value).items():
            spread(f"{name}.{key}", item, found, (*above, id(value)))
    else:
        found[name] = plain(value, above)


def members(value: Any) -> dict[str, Any]:
    """Return an object's dataclass fields that are set, then its attributes, without names that start with `_`."""
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    named = {field.name: getattr(value, field.name) for field in fields if hasattr(value, field.name)}
    return {name: item for name, item in {**named, **vars(value)}.items() if not name.startswith("_")}


def is_object(value: Any) -> bool:
    """Whether a value is an object with attributes (not a function, enum member, dict, list or tuple)."""
    return (
        hasattr(value, "__dict__") and not callable(value) and not isinstance(value, enum.Enum | dict | list | tuple)
    ) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def plain(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Convert one value to JSON types."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, functools.partial):
        kwargs = {name: plain(item, above) for name, item in value.keywords.items()}
        return {**plain(value.func), "args": [plain(item, above) for item in value.args], "kwargs": kwargs}
    if isinstance(value, list | tuple | set):
        return [plain(item, above) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item, above) for key, item in value.items()}
    if is_object(value):
        inner = {name: plain(item, (*above, id(value))) for name, item in members(value).items()}
        return {"class": qualified(type(value)), **inner}
    if callable(value):
        return {"callable": qualified(value)}
    return str(value)


def qualified(thing: Any) -> str:
    """Return the qualified name of a class or function, with its module."""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__name__)}"
