"""Read the plan of a sweep from options or a TOML file, and expand its lists into cells."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from llmbx.api import HandlingRequest, Launcher, Positive, Scalar, Settings, UsageError, Value
from llmbx.api.verbs import Request, scales_of

T = TypeVar("T")
Names = str | tuple[str, ...]
AXES = ("workload", "recipe", "size", "dtype", "gpu_type")
"""Keys whose lists of names are factors of the product, besides `gpus` and the lists in `set`."""

RENAMED = {"with_": "wrappers"}
"""Fields of a part that have another name in `Request`."""

NOT_COMMON = ("name", "repeats", "gpus", "set", "each_node", "plugin_keys", *AXES)
"""Fields of a part that are not copied to `Request` as they are."""


class Part(HandlingRequest, frozen=True, rename={"with_": "with"}):
    """One product of a plan. Lists are factors of the product, all other values apply to all its cells.

    `gpus` contains numbers and doubling ranges ("64-512"), `set` maps `--set` keys to values or lists of values.
    `each_node` names nodes, "n[01-16]" or a list: every cell runs on each of them alone. `name`
    distinguishes the cells of this part from equal cells of other parts. The other keys are the options of `llmbx run`.
    None means that the key is not set; false, 0 and an empty list are explicit values.
    """

    name: str | None = None
    workload: Names | None = None
    recipe: Names | None = None
    size: Names | None = None
    dtype: Names | None = None
    gpu_type: Names | None = None
    gpus: int | str | tuple[int | str, ...] | None = None
    set: dict[str, Scalar | tuple[Scalar, ...]] = {}
    each_node: Names | None = None
    repeats: int | None = None
    plugin: str | None = None
    gpus_per_node: Positive | None = None
    steps: Positive | None = None
    window: str | None = None
    runtime: str | None = None
    launcher: str | None = None
    image: str | None = None
    cluster: str | None = None
    env: dict[str, str] = {}
    plugin_keys: dict[str, dict[str, Any]] = {}
    mounts: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    with_: tuple[str, ...] | None = None
    walltime_minutes: Positive | None = None
    force: bool | None = None


class PlanFile(Part, frozen=True, rename={"with_": "with"}):
    """The content of `plan.toml`. Its top-level keys apply to every `[[part]]`, which may add keys or override them."""

    part: tuple[Part, ...] = ()


class CellRequest(Value, frozen=True):
    """One cell before it is resolved. `settings` are its `--set` pairs, `part` is the name of its part.

    `node` is the only node that it runs on; None: the launcher chooses.
    """

    request: Request
    settings: dict[str, str] = {}
    repeats: int = 1
    part: str | None = None
    node: str | None = None


def read_plan(path: Path, kinds: Mapping[str, type[Settings]]) -> list[CellRequest]:
    """Read the cells of a plan file. `kinds` are the settings of the plugins by plugin name.

    Raises `UsageError` with the file, the position and a suggestion.
    """
    from llmbx.api import convert_toml, read_toml

    data = _with_plugin_keys(read_toml(path, dict[str, Any]), kinds)
    parts = data.get("part")
    data = {**data, "part": [_with_plugin_keys(part, kinds) for part in parts]} if isinstance(parts, list) else data
    file = convert_toml(data, PlanFile, str(path))
    parts = [_merged(file, part) for part in file.part] or [file]
    try:
        return [cell for part in parts for cell in expand(part)]
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _with_plugin_keys(table: Any, kinds: Mapping[str, type[Settings]]) -> Any:
    """Move the settings of plugins into `plugin_keys`: the tables of plugins, and keys that only one plugin defines."""
    if not isinstance(table, dict):
        return table
    own_keys = {*Part.__struct_fields__, "with", "part"} - {"plugin_keys"}
    plugin_keys: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in table.items():
        owners = [plugin for plugin, kind in kinds.items() if key in kind.__struct_fields__]
        if key in own_keys:
            own[key] = value
        elif isinstance(value, dict) and key not in owners:
            plugin_keys[key] = {**plugin_keys.get(key, {}), **value}
        elif len(owners) == 1:
            plugin_keys.setdefault(owners[0], {})[key] = value
        else:
            own[key] = value
    return {**own, "plugin_keys": plugin_keys}


def expand(part: Part) -> list[CellRequest]:
    """Expand the product of the lists of a part. The last lists (`gpus`, then `set`) vary fastest.

    Raises `UsageError` if a list is empty or has duplicates.
    """
    if part.repeats is not None and part.repeats < 1:
        raise UsageError(f"repeats: expected an integer >= 1, got {part.repeats}")
    if not part.workload:
        raise UsageError("no workload given; `llmbx list` shows the workloads")
    named: list[list[tuple[str, Any]]] = [[(axis, value) for value in _names(part, axis)] for axis in AXES]
    counts: list[tuple[str, Any]] = [("gpus", count) for count in _gpus(part)]
    pairs = [[(key, text) for text in _texts(key, value)] for key, value in part.set.items()]
    common = _common(part)
    return [
        CellRequest(
            request=Request(**common, **dict(chosen), settings=dict(settings)),
            settings=dict(settings),
            repeats=part.repeats or 1,
            part=part.name,
            node=node,
        )
        for chosen in itertools.product(*named, counts)
        for settings in itertools.product(*pairs)
        for node in _nodes(part)
    ]


def _nodes(part: Part) -> Sequence[str | None]:
    if part.each_node is None:
        return (None,)
    names = part.each_node if isinstance(part.each_node, str) else ",".join(part.each_node)
    return Launcher.node_names(names, "--each-node")


def _merged(file: PlanFile, part: Part) -> Part:
    """The part with the defaults of the file. Tables are merged by key."""
    values: dict[str, Any] = {}
    for field in Part.__struct_fields__:
        value, default = getattr(part, field), getattr(file, field)
        if field == "plugin_keys":
            values[field] = {name: {**default.get(name, {}), **value.get(name, {})} for name in {**default, **value}}
        elif isinstance(default, dict):
            values[field] = {**default, **value}
        else:
            values[field] = default if value is None else value
    return Part(**values)


def _common(part: Part) -> dict[str, Any]:
    """The fields of `Request` that are the same for all cells of the part."""
    values = {field: getattr(part, field) for field in Part.__struct_fields__ if field not in NOT_COMMON}
    common = {RENAMED.get(field, field): value for field, value in values.items() if value is not None}
    return {**common, "plugin_settings": part.plugin_keys}


def _names(part: Part, axis: str) -> Sequence[str | None]:
    value = getattr(part, axis)
    if value is None:
        return [None]
    names = [value] if isinstance(value, str) else list(value)
    if not names:
        raise UsageError(f"{axis}: the list is empty")
    lowered = [name.lower() for name in names] if axis in ("size", "dtype", "gpu_type") else names
    return _unique(axis, lowered)


def _gpus(part: Part) -> Sequence[int | None]:
    if part.gpus is None:
        return [None]
    items = part.gpus if isinstance(part.gpus, tuple) else (part.gpus,)
    if not items:
        raise UsageError("gpus: the list is empty")
    return _unique("gpus", [count for item in items for count in _counts(str(item))])


def _counts(text: str) -> tuple[int, ...]:
    if text == "any":
        raise UsageError(f"gpus: '{text}' is not a scale: expected a number or a doubling range FIRST-LAST")
    try:
        return scales_of([text])
    except UsageError as error:
        raise UsageError(f"gpus: {error}") from None


def _texts(key: str, value: Scalar | tuple[Scalar, ...]) -> list[str]:
    values = value if isinstance(value, tuple) else (value,)
    if not values:
        raise UsageError(f"set.{key}: the list is empty")
    return _unique(f"set.{key}", [_text(member) for member in values])


def _unique(what: str, values: list[T]) -> list[T]:
    for value in values:
        if values.count(value) > 1:
            raise UsageError(f"{what}: duplicate value {value}; set repeats to run a cell several times")
    return values


def _text(value: Scalar) -> str:
    """Format a value as `--set` parses it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)
