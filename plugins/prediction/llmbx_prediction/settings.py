"""The settings of --set: which there are, and the model and configuration that they change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llmbx.api import UsageError, did_you_mean

from .case import Case
from .cost.model import Model
from .validity import check

INTEGERS = {"tp", "pp", "cp", "ep", "etp", "vp", "mbs", "gbs", "seq"}
"""Keys of --set that change the configuration."""
SHAPE = {"layers", "hidden", "ffn", "heads", "groups", "head_width", "vocab", "experts", "top_k", "moe_ffn",
         "shared_ffn", "dense_layers"}  # fmt: skip
"""Keys of --set that change the model."""
ALIASES = {"hidden_size": "hidden", "ffn_hidden_size": "ffn", "query_groups": "groups", "vocab_size": "vocab"}
CHANGED = ", changed"
"""End of the name of a model whose shape the user changed."""
RECOMPUTE = ("none", "selective", "full")


def split(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of the model and those of the configuration. Raises `UsageError` for an unknown one."""
    named = {ALIASES.get(key, key): value for key, value in settings.items()}
    allowed = INTEGERS | SHAPE | {"fsdp", "recompute", "fp8_recipe"}
    for key in named:
        if key not in allowed:
            raise UsageError(f"--set {key}: unknown setting{did_you_mean(key, sorted(allowed))}")
    return {k: v for k, v in named.items() if k in SHAPE}, {k: v for k, v in named.items() if k not in SHAPE}


def _integer(key: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,12}", text) or (int(text) < 1 and key not in SHAPE):
        raise UsageError(f"--set {key}={text}: expected an integer >= {0 if key in SHAPE else 1}")
    return int(text)


def reshaped(model: Model, shape: Mapping[str, str]) -> Model:
    values = {key: _integer(key, text) for key, text in shape.items()}
    if not values:
        return model
    if not model.has_shape:
        raise UsageError(f"--set {next(iter(values))}: the shape of {model.name} is not known")
    if "heads" in values and "groups" not in values and model.groups == model.heads:
        values["groups"] = values["heads"]
    changed = model.replace(**values)
    if min(changed.layers, changed.hidden, changed.heads, changed.vocab) < 1:
        raise UsageError("--set: layers, hidden, heads and vocab must be >= 1")
    if changed.heads % (changed.groups or changed.heads):
        raise UsageError(f"--set groups={changed.groups}: does not divide the {changed.heads} heads")
    if changed.experts and changed.top_k > changed.experts:
        raise UsageError(f"--set top_k={changed.top_k}: {changed.name} has {changed.experts} experts")
    if changed.layers < max(changed.dense_layers, changed.ssm_layers + (changed.attention_layers or 0)):
        raise UsageError(f"--set layers={changed.layers}: {model.name} has more layers of one kind")
    return changed if set(values) <= {"layers"} else changed.replace(name=model.name + CHANGED)


def changed_by(case: Case, settings: Mapping[str, str]) -> Case:
    values: dict[str, Any] = _consequences(case, settings)
    for key, text in settings.items():
        if key == "fp8_recipe":
            values["dtype"] = "mxfp8" if text == "mx" else "fp8"
        elif key == "fsdp":
            if text.lower() not in ("true", "false", "0", "1", "on", "off"):
                raise UsageError(f"--set fsdp={text}: expected true or false")
            values[key] = text.lower() in ("true", "1", "on")
        elif key == "recompute":
            if text not in RECOMPUTE:
                raise UsageError(f"--set recompute={text}: expected {', '.join(RECOMPUTE)}")
            values[key] = text
        else:
            values[key] = _integer(key, text)
    changed = case.replace(**values)
    return check(changed if changed.layout == case.layout else changed.replace(chosen=False))


def _consequences(case: Case, settings: Mapping[str, str]) -> dict[str, Any]:
    """What follows from the pipeline: none has no virtual stages, one no offloaded layers, and Megatron's no FSDP."""
    if "pp" not in settings:
        return {}
    if settings["pp"] == "1":
        return {"vp": 1}
    return {"fsdp": case.fsdp and case.engine != "megatron", "offload_layers": 0}


def divisible(case: Case, settings: Mapping[str, str]) -> int:
    """The global batch nearest to that of the case which the micro-batches of the settings divide."""
    mbs, tp, pp, cp = (_integer(name, settings[name]) if name in settings else getattr(case, name)
                       for name in ("mbs", "tp", "pp", "cp"))  # fmt: skip
    unit = mbs * max(1, case.gpus // (tp * pp * cp))
    return max(1, round(case.gbs / unit)) * unit
