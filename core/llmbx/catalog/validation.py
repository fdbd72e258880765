"""Validate a catalog file beyond the types of its keys: names must exist, scales must be readable."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..config.settings import ALIASES, BATCH, LETTERS, SHAPE, SWITCHES
from ..errors import UsageError
from ..measure.window import check
from ..model import ModelShape, Recipe, Row, Workload
from ..phrases import did_you_mean
from .scales import ANY, evaluate, scales

CORE = {*LETTERS, *BATCH, *SWITCHES, *SHAPE}
"""Keys of `--set` that a workload must not redefine."""

PROFILE_FIELDS = ("workload", "size", "dtype", "gpus", "job", "node", "rank", "local_rank", "pid")
"""Placeholders that a recipe's `profile_name` may contain."""

_FOLDER = re.compile(r"[A-Za-z0-9][\w.+-]*")


def check_workload(workload: Workload, source: str) -> None:
    """Raise `UsageError` with the file `source` and the place of the first invalid value."""
    if not _FOLDER.fullmatch(workload.folder):
        raise UsageError(f"{source}: at folder: '{workload.folder}' is not a valid folder name (letters, digits, ._+-)")
    names = [recipe.name for recipe in workload.recipes]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled:
        raise UsageError(f"{source}: at recipes: two recipes are named '{doubled}'")
    if workload.default_size is not None:
        _known(workload.default_size, workload.sizes, "size", f"{source}: at default_size")
    for name, size in workload.sizes.items():
        _check_shape(size.model, f"{source}: at sizes.{name}.model")
    for key, setting in workload.settings.items():
        if key in CORE or key.lower() in ALIASES:
            raise UsageError(f"{source}: at settings.{key}: llmbx already defines a key of this name")
        if setting.choices and setting.default not in setting.choices:
            raise UsageError(f"{source}: at settings.{key}: the default {setting.default!r} is not one of its choices")
    for number, recipe in enumerate(workload.recipes):
        _check_recipe(workload, recipe, f"{source}: at recipes[{number}]")


def _check_recipe(workload: Workload, recipe: Recipe, place: str) -> None:
    if not all(part.isdigit() for part in recipe.released.split(".")):
        raise UsageError(f"{place}.released: '{recipe.released}' is not a valid release: expected e.g. 25.10")
    _known_settings(workload, recipe.settings, f"{place}.settings")
    _check_steps(recipe, place)
    for field in re.findall(r"\{(\w*)\}", recipe.profile_name):
        _known(field, PROFILE_FIELDS, "field", f"{place}.profile_name")
    for key, minutes in recipe.walltime_minutes.items():
        types = {name for row in recipe.rows for name in row.gpu_types}
        if ANY not in types:
            _known(key, ("default", *workload.sizes, *sorted(types)), "size or GPU type", f"{place}.walltime_minutes")
        if minutes < 1:
            raise UsageError(f"{place}.walltime_minutes.{key}: expected an integer >= 1, got {minutes}")
    for index, exports in enumerate(recipe.exports):
        for size in exports.sizes:
            _known(size, workload.sizes, "size", f"{place}.exports[{index}].sizes")
    for number, row in enumerate(recipe.rows):
        _check_row(workload, row, f"{place}.rows[{number}]")


def _check_shape(model: ModelShape, place: str) -> None:
    for name in model.__struct_fields__:
        value = getattr(model, name)
        if value is not None and not isinstance(value, bool) and value < 1:
            raise UsageError(f"{place}.{name}: expected an integer >= 1, got {value}")


def _check_steps(recipe: Recipe, place: str) -> None:
    for name in ("steps", "profile_total_steps"):
        if getattr(recipe, name) < 1:
            raise UsageError(f"{place}.{name}: expected an integer >= 1, got {getattr(recipe, name)}")
    try:
        check(recipe.window)
    except UsageError as error:
        raise UsageError(f"{place}.window: {error}") from None
    span = re.fullmatch(r"(\d+)-(\d+)", recipe.profile_steps)
    if span is None or int(span[1]) >= int(span[2]):
        raise UsageError(f"{place}.profile_steps: expected a range A-B such as 45-50, got '{recipe.profile_steps}'")


def _check_row(workload: Workload, row: Row, place: str) -> None:
    _known(row.size, workload.sizes, "size", f"{place}.size")
    _known_settings(workload, row.settings, f"{place}.settings")
    for key in ("dtypes", "gpu_types", "gpus"):
        if not getattr(row, key):
            raise UsageError(f"{place}.{key}: must not be empty")
    try:
        for count in scales(row.gpus) or (1,):
            evaluate(row.gbs, count)
            if isinstance(row.fsdp, str):
                evaluate(row.fsdp, count)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _known_settings(workload: Workload, keys: Iterable[str], place: str) -> None:
    for key in keys:
        _known(key, workload.settings, "setting", place)


def _known(name: str, allowed: Iterable[str], what: str, place: str) -> None:
    names = list(allowed)
    if name not in names:
        raise UsageError(f"{place}: no {what} named '{name}'{did_you_mean(name, names)}")
