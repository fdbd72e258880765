"""What a sweep is asked to run: lists of values and their product, from options or a TOML file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from llmbx.catalog.scales import ANY, scales
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import Natural, Positive, Scalar, Seconds, Value
from llmbx.model.settings import Settings

T = TypeVar("T")
Names = str | tuple[str, ...]
AXES = ("workload", "recipe", "size", "dtype", "gpu_type")
"""Lists of names, each a factor of the product; the numbers of GPUs and the `set` lists are the others."""

REQUESTS = {"with_": "wrappers"}
"""Keys of a plan by the field of `Request` that they are, where the names differ."""

OWN = ("name", "repeats", "gpus", "set", "plugin_keys", *AXES)
"""Keys of a plan that are no field of `Request` as they stand."""


class Part(Value, frozen=True, rename={"with_": "with"}):
    """One product of a plan. A list is a factor of it, everything else holds for all its cells.

    `gpus` holds numbers and doubling ranges ("64-512"); `set` values, or lists of them, by `--set` key. `name` tells
    the cells of this part from equal ones of another. The other keys are those of `llmbx run`'s options. None is
    what the part does not say (no file can write it): false, 0 and an empty list are said.
    """

    name: str | None = None
    workload: Names | None = None
    recipe: Names | None = None
    size: Names | None = None
    dtype: Names | None = None
    gpu_type: Names | None = None
    gpus: int | str | tuple[int | str, ...] | None = None
    set: dict[str, Scalar | tuple[Scalar, ...]] = {}
    repeats: int | None = None
    plugin: str | None = None
    gpus_per_node: Positive | None = None
    steps: Positive | None = None
    window: str | None = None
    runtime: str | None = None
    launcher: str | None = None
    image: str | None = None
    accept_image_change: bool | None = None
    cluster: str | None = None
    env: dict[str, str] = {}
    plugin_keys: dict[str, dict[str, Any]] = {}
    mounts: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    with_: tuple[str, ...] | None = None
    walltime_minutes: Positive | None = None
    stall_timeout_s: Seconds | None = None
    retries: Natural | None = None
    preflight: bool | None = None
    force: bool | None = None


class PlanFile(Part, frozen=True, rename={"with_": "with"}):
    """A whole `plan.toml`. Its own keys hold for every `[[part]]`, which may add to them or say otherwise."""

    part: tuple[Part, ...] = ()


class Wanted(Value, frozen=True):
    """One cell as it was asked for. `settings` are its `--set` pairs, `part` the name of its part."""

    request: Request
    settings: dict[str, str] = {}
    repeats: int = 1
    part: str | None = None


def read_plan(path: Path, kinds: Mapping[str, type[Settings]]) -> list[Wanted]:
    """The cells of a plan file, which may hold settings of these plugins.

    Raises `UsageError` with the file, the place and a suggestion.
    """
    from llmbx.toml_file import convert, parse_toml

    data = _with_plugin_keys(parse_toml(path), kinds)
    parts = data.get("part")
    data = {**data, "part": [_with_plugin_keys(one, kinds) for one in parts]} if isinstance(parts, list) else data
    file = convert(data, PlanFile, str(path))
    parts = [_merged(file, part) for part in file.part] or [file]
    try:
        return [wanted for part in parts for wanted in expand(part)]
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _with_plugin_keys(table: Any, kinds: Mapping[str, type[Settings]]) -> Any:
    """A part's table with the settings of plugins set apart: their tables, and keys that only one of them has."""
    if not isinstance(table, dict):
        return table
    own = {*Part.__struct_fields__, "with", "part"} - {"plugin_keys"}
    found: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in table.items():
        owners = [plugin for plugin, kind in kinds.items() if key in kind.__struct_fields__]
        if key in own:
            rest[key] = value
        elif isinstance(value, dict) and key not in owners:
            found[key] = {**found.get(key, {}), **value}
        elif len(owners) == 1:
            found.setdefault(owners[0], {})[key] = value
        else:
            rest[key] = value
    return {**rest, "plugin_keys": found}


def expand(part: Part) -> list[Wanted]:
    """The product of the part's lists, in the order in which they are written above. Raises `UsageError`."""
    if part.repeats is not None and part.repeats < 1:
        raise UsageError(f"repeats: expected a number of at least 1, not {part.repeats}")
    if not part.workload:
        raise UsageError("which workload? `llmbx list` names them")
    named: list[list[tuple[str, Any]]] = [[(axis, value) for value in _names(part, axis)] for axis in AXES]
    counts: list[tuple[str, Any]] = [("gpus", count) for count in _gpus(part)]
    pairs = [[(key, text) for text in _texts(key, value)] for key, value in part.set.items()]
    common = _common(part)
    return [
        Wanted(
            request=Request(**common, **dict(chosen), settings=dict(settings)),
            settings=dict(settings),
            repeats=part.repeats or 1,
            part=part.name,
        )
        for chosen in itertools.product(*named, counts)
        for settings in itertools.product(*pairs)
    ]


def _merged(file: PlanFile, part: Part) -> Part:
    """The part with what it does not say itself taken from the file; tables are joined key by key."""
    values: dict[str, Any] = {}
    for field in Part.__struct_fields__:
        mine, theirs = getattr(part, field), getattr(file, field)
        if field == "plugin_keys":
            values[field] = {name: {**theirs.get(name, {}), **mine.get(name, {})} for name in {**theirs, **mine}}
        elif isinstance(theirs, dict):
            values[field] = {**theirs, **mine}
        else:
            values[field] = theirs if mine is None else mine
    return Part(**values)


def _common(part: Part) -> dict[str, Any]:
    """What every cell of the part has, as fields of `Request`."""
    said = {field: getattr(part, field) for field in Part.__struct_fields__ if field not in OWN}
    found = {REQUESTS.get(field, field): value for field, value in said.items() if value is not None}
    return {**found, "plugin_settings": part.plugin_keys}


def _names(part: Part, axis: str) -> Sequence[str | None]:
    value = getattr(part, axis)
    if value is None:
        return [None]
    names = [value] if isinstance(value, str) else list(value)
    if not names:
        raise UsageError(f"{axis}: the list is empty")
    lowered = [name.lower() for name in names] if axis in ("size", "dtype", "gpu_type") else names
    return _unlike(axis, lowered)


def _gpus(part: Part) -> Sequence[int | None]:
    if part.gpus is None:
        return [None]
    given = part.gpus if isinstance(part.gpus, tuple) else (part.gpus,)
    if not given:
        raise UsageError("gpus: the list is empty")
    return _unlike("gpus", [count for one in given for count in _counts(str(one))])


def _counts(text: str) -> tuple[int, ...]:
    if text == ANY:
        raise UsageError(f"gpus: '{text}' is not a scale of a sweep: expected a number or FIRST-LAST (doubling)")
    try:
        return scales([text])
    except UsageError as error:
        raise UsageError(f"gpus: {error}") from None


def _texts(key: str, value: Scalar | tuple[Scalar, ...]) -> list[str]:
    values = value if isinstance(value, tuple) else (value,)
    if not values:
        raise UsageError(f"set.{key}: the list is empty")
    return _unlike(f"set.{key}", [_text(one) for one in values])


def _unlike(what: str, values: list[T]) -> list[T]:
    for value in values:
        if values.count(value) > 1:
            raise UsageError(f"{what}: {value} is given twice; use repeats to run a cell more than once")
    return values


def _text(value: Scalar) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)
