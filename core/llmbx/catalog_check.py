"""What a catalog file must hold beyond the types of its keys: names that exist, scales that can be read."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import UsageError, did_you_mean
from .model import Recipe, Row, Workload
from .scales import evaluate, scales


def check_workload(workload: Workload, source: str) -> None:
    """Raises `UsageError` with the file `source` and the place of the first thing that does not fit."""
    names = [recipe.name for recipe in workload.recipes]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled:
        raise UsageError(f"{source}: at recipes: two recipes are named '{doubled}'")
    if workload.default_size is not None:
        _known(workload.default_size, workload.sizes, "size", f"{source}: at default_size")
    for key, setting in workload.settings.items():
        if setting.choices and setting.default not in setting.choices:
            raise UsageError(f"{source}: at settings.{key}: the default {setting.default!r} is not one of its choices")
    for number, recipe in enumerate(workload.recipes):
        _check_recipe(workload, recipe, f"{source}: at recipes[{number}]")


def _check_recipe(workload: Workload, recipe: Recipe, place: str) -> None:
    if not all(part.isdigit() for part in recipe.released.split(".")):
        raise UsageError(f"{place}.released: '{recipe.released}' is not a release: expected numbers and dots (25.10)")
    _known_settings(workload, recipe.settings, f"{place}.settings")
    for index, exports in enumerate(recipe.exports):
        for size in exports.sizes:
            _known(size, workload.sizes, "size", f"{place}.exports[{index}].sizes")
    for number, row in enumerate(recipe.rows):
        _check_row(workload, row, f"{place}.rows[{number}]")


def _check_row(workload: Workload, row: Row, place: str) -> None:
    _known(row.size, workload.sizes, "size", f"{place}.size")
    _known_settings(workload, row.settings, f"{place}.settings")
    for key in ("dtypes", "gpu_types", "gpus"):
        if not getattr(row, key):
            raise UsageError(f"{place}.{key}: is empty")
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


def _known(name: str, known: Iterable[str], what: str, place: str) -> None:
    names = list(known)
    if name not in names:
        raise UsageError(f"{place}: no {what} named '{name}'{did_you_mean(name, names)}")
