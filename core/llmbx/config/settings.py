"""Parse `--set KEY=VALUE` and the keys of a framework in a profile: types, and suggestions for misspelled keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..model.base import Scalar
from ..model.workload import Setting, Workload
from ..phrases import did_you_mean

LETTERS = ("tp", "pp", "cp", "ep", "etp", "vp", "fsdp")
"""Parallelism: keys stored in `RunSpec.parallelism`. dp is computed from the others and the number of GPUs."""

BATCH = {"mbs": "micro_batch_size", "gbs": "global_batch_size"}
"""Batch sizes in samples, by the abbreviations of the recipes."""

SWITCHES = {"cg": "cuda_graphs", "rl": "recompute_layers", "ol": "offload_layers"}
"""CUDA graphs (true or false), recomputed and offloaded layers, by the abbreviations of the recipes."""

SHAPE = ("layers", "hidden_size", "ffn_hidden_size", "heads", "query_groups", "vocab_size", "sequence_length",
         "experts", "experts_per_token", "moe_ffn_hidden_size", "shared_ffn_hidden_size")  # fmt: skip
"""Keys that change the model. A run that sets one of them is a proxy of its model size."""

ALIASES = {"seq": "sequence_length", "cuda_graphs": "cg", "recompute_layers": "rl", "offload_layers": "ol",
           "micro_batch_size": "mbs", "global_batch_size": "gbs", "seq_length": "sequence_length",
           "tensor_model_parallel_size": "tp", "pipeline_model_parallel_size": "pp", "context_parallel_size": "cp",
           "expert_model_parallel_size": "ep", "expert_tensor_parallel_size": "etp",
           "virtual_pipeline_model_parallel_size": "vp"}  # fmt: skip

TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
"""The types of settings by the name in `Setting.type`."""


def read_settings(pairs: Mapping[str, str], workload: Workload) -> dict[str, Scalar]:
    """Parse `--set` pairs to typed values by canonical key. Raises `UsageError` for invalid keys and values."""
    typed: dict[str, Scalar] = {}
    for raw, text in pairs.items():
        key = raw if raw in workload.settings else ALIASES.get(raw.lower(), raw.lower())
        if key in ("fsdp", "cg"):
            typed[key] = _switch(f"--set {raw}", text)
        elif key in LETTERS or key in BATCH or key in SWITCHES or key in SHAPE:
            typed[key] = _whole(f"--set {raw}", text)
        elif key in workload.settings:
            typed[key] = _like(f"--set {raw}", text, workload.settings[key])
        else:
            keys = [*LETTERS, *BATCH, *SWITCHES, *SHAPE, *workload.settings]
            raise UsageError(f"--set {raw}: unknown key for {workload.name}{did_you_mean(raw, keys)}")
    return typed


def of_profile(values: Mapping[str, Any], workload: Workload, place: str) -> dict[str, Scalar]:
    """The workload's settings in its framework's table of a cluster profile, typed; keys of others are left out.

    `place` is the table. Raises `UsageError` for an invalid value.
    """
    settings: dict[str, Scalar] = {}
    for key, value in values.items():
        if setting := workload.settings.get(key):
            if not isinstance(value, bool | int | float | str):
                raise UsageError(f"{place}.{key}: expected a value like {setting.default!r}, got {value!r}")
            settings[key] = _like(
                f"{place}.{key}", str(value).lower() if isinstance(value, bool) else str(value), setting
            )
    return settings


def _switch(place: str, text: str) -> bool | int:
    lowered = text.lower()
    if lowered in ("true", "yes", "on"):
        return True
    if lowered in ("false", "no", "off"):
        return False
    return _whole(place, text)


def _whole(place: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{place}={text}: expected an integer") from None
    if value < 0:
        raise UsageError(f"{place}={text}: expected an integer >= 0")
    return value


def _like(place: str, text: str, setting: Setting) -> Scalar:
    value = _typed(place, text, setting)
    if setting.choices and value not in setting.choices:
        choices = [str(c) for c in setting.choices]
        raise UsageError(f"{place}={text}: invalid value{did_you_mean(text, choices)}")
    return value


def _typed(place: str, text: str, setting: Setting) -> Scalar:
    if setting.optional and text.lower() in ("none", "null", ""):
        return None
    kind = TYPES[setting.type] if setting.type else type(setting.default)
    if kind is bool:
        value = _switch(place, text)
        return bool(value)
    if kind is int or kind is float:
        return _number(place, text, kind)
    return text


def _number(place: str, text: str, kind: type[int] | type[float]) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        raise UsageError(f"{place}={text}: expected {'an integer' if kind is int else 'a number'}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{place}={text}: expected a finite number")
    return value
