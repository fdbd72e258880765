"""Resolve model, parallelism, batch sizes and switches: the recipe row's values, overridden by `--set`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..catalog.scales import evaluate
from ..config.settings import BATCH, LETTERS, SHAPE, SWITCHES
from ..errors import UsageError
from ..model import ModelShape, Parallelism, Recipe, Row, Scalar, Size

if TYPE_CHECKING:
    from .layers import Layers


def shape(
    layers: Layers, recipe: Recipe, row: Row, size: Size, typed: Mapping[str, Scalar], gpus: int
) -> dict[str, Any]:
    """Resolve model, parallelism, batch sizes and switches: the row's values, overridden by `--set` (`typed`).

    Raises `UsageError` for a degree or a batch size below 1.
    """
    where = f"recipe {recipe.name} ({recipe.source})"
    row_values: dict[str, Any] = {key: getattr(row, key) for key in LETTERS}
    row_values["fsdp"] = evaluate(row.fsdp, gpus) if isinstance(row.fsdp, str) else row.fsdp
    letters = {key: _set(layers, typed, key, row_values[key], where) for key in LETTERS}
    mbs = _set(layers, typed, "mbs", row.mbs, where)
    gbs = _set(layers, typed, "gbs", evaluate(row.gbs, gpus), where)
    sizes = {"tp": letters["tp"], "pp": letters["pp"], "cp": letters["cp"], "mbs": mbs, "gbs": gbs}
    for key, value in sizes.items():
        if value < 1:
            raise UsageError(f"--set {key}={value}: expected an integer >= 1")
    dp = gpus // (letters["tp"] * letters["pp"] * letters["cp"])
    layers.note("dp", dp, "GPUs / (TP x PP x CP)")
    switches = {name: _set(layers, typed, key, getattr(row, name), where) for key, name in SWITCHES.items()}
    layers.note("gradient_accumulation", None, "GBS / (MBS x DP)")
    layers.origins.update({name: layers.origins.pop(key) for key, name in {**SWITCHES, **BATCH}.items()})
    return {
        "model": _model(layers, size, row, typed),
        "parallelism": Parallelism(**letters, dp=max(1, dp)),
        "micro_batch_size": mbs,
        "global_batch_size": gbs,
        "gradient_accumulation": max(1, gbs // (mbs * max(1, dp))),
        **switches,
    }


def _set(layers: Layers, typed: Mapping[str, Scalar], key: str, fallback: Any, origin: str) -> Any:
    if key in typed:
        return layers.note(key, typed[key], f"--set {key}")
    return layers.note(key, fallback, origin)


def _model(layers: Layers, size: Size, row: Row, typed: Mapping[str, Scalar]) -> ModelShape:
    changes: dict[str, Any] = {key: typed[key] for key in SHAPE if key in typed}
    if row.layers is not None:
        changes.setdefault("layers", row.layers)
    for key in changes:
        layers.note(key, changes[key], f"--set {key}" if key in typed else "recipe row")
    if size.model.windowed_layers and "layers" in changes and size.model.layers > 0:
        share = size.model.windowed_layers / size.model.layers
        changes["windowed_layers"] = layers.note("windowed_layers", math.ceil(share * changes["layers"]), "layers")
    return size.model.replace(**changes)
