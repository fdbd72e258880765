"""The configuration of a specification of core, with the date of its release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from llmbx.api import Recipe, RunSpec, UsageError, did_you_mean, dtype_name

from .case import BARE_STACK, Case
from .cost.model import Model
from .cost.rates import LOW, WIDE

if TYPE_CHECKING:
    from llmbx.api import Workload

LAYOUT = ("tp", "pp", "cp", "ep", "etp", "vp", "fsdp", "micro_batch_size", "recompute_layers", "offload_layers")
"""Settings of a run that change its layout."""
DTYPES = (*WIDE, *LOW)
OWN_RECIPE = "llmbx"
"""The source of a recipe that is llmbx's own."""


def of_spec(
    spec: RunSpec, model: Model, workload: Workload, dtype: str | None = None, release: str | None = None
) -> Case:  # fmt: skip
    """The configuration of a specification, with another dtype or release if they are given.

    Raises `UsageError` for a dtype without rates.
    """
    p, narrow = spec.parallelism, dtype is None and spec.dtype == "fp8" and spec.settings.get("fp8_recipe") == "mx"
    dtype = "mxfp8" if narrow else dtype or spec.dtype
    released, again = release or _release_of(spec, workload), _recomputed(spec)
    return Case(
        model=model, gpu_type=spec.gpu_type, gpus=spec.gpus, dtype=dtype_of(dtype), gbs=spec.global_batch_size,
        mbs=spec.micro_batch_size, seq=spec.model.sequence_length, tp=p.tp, pp=p.pp, cp=p.cp, ep=p.ep or 1,
        etp=p.etp or (p.tp if model.experts else 1), vp=p.vp or 1, fsdp=bool(p.fsdp),
        recompute="full" if again >= 1 else "selective" if again else "none",
        recomputed=again if again < 1 else 0.0, offload_layers=spec.offload_layers,
        stack=_stack(spec, workload), when=when_of(released), release=released,
        token_drop=spec.settings.get("moe_token_drop") is True,
        chosen=not spec.layout_of and not any(spec.origins.get(name, "").startswith("--set") for name in LAYOUT),
    )  # fmt: skip


def _recomputed(spec: RunSpec) -> float:
    """The share of the layers that are recomputed as a whole: so many of each virtual pipeline stage."""
    p = spec.parallelism
    return min(1.0, (spec.recompute_layers or 0) * p.pp * (p.vp or 1) / spec.model.layers)


def _recipe_of(spec: RunSpec, workload: Workload) -> Recipe | None:
    return next((recipe for recipe in workload.recipes if recipe.name == spec.recipe), None)


def _release_of(spec: RunSpec, workload: Workload) -> str:
    """The year and month in which the recipe was released; empty if it has none."""
    recipe = _recipe_of(spec, workload)
    return recipe.released if recipe and re.match(r"\d\d\.\d\d", recipe.released) else ""


def _stack(spec: RunSpec, workload: Workload) -> str:
    """The stack of the driver; llmbx's own recipes run without Transformer Engine, which the published figures have."""
    recipe = _recipe_of(spec, workload)
    if spec.driver == "megatron-bridge" and recipe is not None and recipe.source == OWN_RECIPE:
        return BARE_STACK
    return "maxtext" if spec.driver.startswith("maxtext") else spec.driver


def when_of(release: str, default: float = 2026.63) -> float:
    """The date in years of a release named by year and month (25.09). Raises `UsageError` for another name."""
    if not release:
        return default
    match = re.fullmatch(r"v?(\d\d)\.(\d\d)(?:\.(\d\d))?", release)
    if match is None or not 1 <= int(match[2]) <= 12:
        raise UsageError(f"--release {release}: expected year and month, for example 26.04")
    return round(2000 + int(match[1]) + (int(match[2]) - 0.5) / 12 + 0.02 * int(match[3] or 0), 3)


def dtype_of(name: str) -> str:
    name = dtype_name(name)
    if name not in DTYPES:
        raise UsageError(f"--dtype {name}: no prediction for this dtype{did_you_mean(name, DTYPES)}")
    return name
