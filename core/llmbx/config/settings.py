"""Parse `--set KEY=VALUE`: known keys, their types, and suggestions for misspelled keys."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..errors import UsageError, did_you_mean
from ..model import Scalar, Setting, Workload

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
           "micro_batch_size": "mbs", "global_batch_size": "gbs"}  # fmt: skip


def read_settings(pairs: Mapping[str, str], workload: Workload) -> dict[str, Scalar]:
    """Parse `--set` pairs to typed values by canonical key. Raises `UsageError` for invalid keys and values."""
    typed: dict[str, Scalar] = {}
    for raw, text in pairs.items():
        key = raw if raw in workload.settings else ALIASES.get(raw.lower(), raw.lower())
        if key in ("fsdp", "cg"):
            typed[key] = _switch(raw, text)
        elif key in LETTERS or key in BATCH or key in SWITCHES or key in SHAPE:
            typed[key] = _whole(raw, text)
        elif key in workload.settings:
            typed[key] = _like(raw, text, workload.settings[key])
        else:
            known = [*LETTERS, *BATCH, *SWITCHES, *SHAPE, *workload.settings]
            raise UsageError(f"--set {raw}: unknown key for {workload.name}{did_you_mean(raw, known)}")
    return typed


def _switch(key: str, text: str) -> bool | int:
    lowered = text.lower()
    if lowered in ("true", "yes", "on"):
        return True
    if lowered in ("false", "no", "off"):
        return False
    return _whole(key, text)


def _whole(key: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"--set {key}={text}: expected an integer") from None
    if value < 0:
        raise UsageError(f"--set {key}={text}: expected an integer >= 0")
    return value


def _like(key: str, text: str, setting: Setting) -> Scalar:
    value = _typed(key, text, setting)
    if setting.choices and value not in setting.choices:
        choices = [str(c) for c in setting.choices]
        raise UsageError(f"--set {key}={text}: invalid value{did_you_mean(text, choices)}")
    return value


def _typed(key: str, text: str, setting: Setting) -> Scalar:
    if setting.optional and text.lower() in ("none", "null", ""):
        return None
    kind = type(setting.default)
    if kind is bool:
        value = _switch(key, text)
        return bool(value)
    if kind in (int, float):
        return _number(key, text, kind)
    return text


def _number(key: str, text: str, kind: type[int] | type[float]) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        raise UsageError(f"--set {key}={text}: expected {'an integer' if kind is int else 'a number'}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"--set {key}={text}: expected a finite number")
    return value
