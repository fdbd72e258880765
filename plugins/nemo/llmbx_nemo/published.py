"""Published configurations: the fields that a release's launch sets on top of the installed framework's own recipe."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from llmbx.api import Permitted, RunSpec, Value, read_toml

from .hub import cache_files, config_of
from .settings import settings


class Rule(Value, frozen=True):
    """A condition on runs, and the fields that are set (or the buffers that are named) for runs that meet it.

    A condition that is left out matches every run.
    """

    sizes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()
    fsdp: bool | None = None
    set: dict[str, bool | int | float | str] = {}
    names: dict[str, str] = {}

    def matches(self, spec: RunSpec) -> bool:
        """Whether the rule applies to this run."""
        return (
            spec.size in (self.sizes or (spec.size,))
            and spec.dtype in (self.dtypes or (spec.dtype,))
            and spec.row_gpu_type in (self.gpu_types or (spec.row_gpu_type,))
            and self.fsdp in (None, bool(spec.parallelism.fsdp))
        )


class Precision(Value, frozen=True):
    """Changes to the precision recipe, by FP8 scaling (`fp8_recipe`)."""

    first_last_layers_bf16: dict[str, bool] = {}


class Function(Value, frozen=True):
    """A performance recipe of Megatron-Bridge: `module`, and the `name` of the function in it.

    The name has the placeholders `{gpus}`, `{gpu_type}` and `{dtype}`. `hub` is the model whose configuration it reads
    from the Hugging Face hub; `layout` is the function (`module:name`) that splits the model among pipeline stages, and
    `splits` are the PP and VP that it knows. Up to 0.5 a function takes the dtype and a variant: `variants` has the
    variant by the number of GPUs.
    """

    module: str
    name: str
    hub: str | None = None
    layout: str | None = None
    splits: tuple[tuple[int, int], ...] = ()
    variants: dict[str, str] = {}


FUNCTION_DTYPES = {"bf16": "bf16", "fp8": "fp8cs", "mxfp8": "fp8mx", "nvfp4": "nvfp4"}
"""How the names of performance recipes call the dtypes."""


PROGRAM_DTYPES = {"bf16": "bf16", "fp8": "fp8_cs", "mxfp8": "fp8_mx", "nvfp4": "nvfp4"}
"""How the programs of `scripts/performance` call them."""


class Published(Value, frozen=True):
    """The contents of a file `published/WORKLOAD-RECIPE.toml`.

    `recipes` gives for each size the module of the installed framework's recipe, `functions` its performance recipe.
    Two fields are for NeMo 2 only: `model` is a model class that replaces the recipe's, and `flops_callback` is the
    model name that NeMo's FLOPs-measuring callback takes.
    """

    source: str
    versions: tuple[str, ...]
    recipes: dict[str, str] = {}
    functions: dict[str, Function] = {}
    model: str | None = None
    flops_callback: str | None = None
    precision: Precision = Precision()
    fields: tuple[Rule, ...] = ()
    buffers: tuple[Rule, ...] = ()
    permitted: tuple[Permitted, ...] = ()

    def permits(self, key: str, there: bool = True) -> bool:
        """Whether a difference from upstream in `key` is permitted."""
        return any(entry.covers(key, there) for entry in self.permitted)


@functools.cache
def published(workload: str, recipe: str) -> Published | None:
    """Return the published configuration of a catalog recipe, or None for a recipe of llmbx's own.

    A mini uses the file of the recipe that it is derived from.
    """
    path = resources.files(__package__) / "published" / f"{workload}-{recipe.removesuffix('-mini')}.toml"
    return read_toml(path, Published) if path.is_file() else None


def is_function(spec: RunSpec) -> bool:
    """Whether the run's recipe is a performance recipe of Megatron-Bridge."""
    recipes = published(spec.workload, spec.recipe)
    return recipes is not None and spec.size in recipes.functions


def splits(spec: RunSpec) -> tuple[tuple[int, int], ...]:
    """Return the PP and VP for which the run's performance recipe has a split of the layers; empty if any will do."""
    recipes = published(spec.workload, spec.recipe)
    return recipes.functions[spec.size].splits if recipes and spec.size in recipes.functions else ()


def function_of(spec: RunSpec, function: Function) -> str:
    """Return the performance recipe of a run as `module:name`: that of its row, also of a row that was derived."""
    dtype = FUNCTION_DTYPES.get(spec.dtype, spec.dtype)
    name = function.name.format(gpus=spec.row_gpus, gpu_type=spec.row_gpu_type, dtype=dtype)
    return f"{function.module}:{name}"


def arguments_of(spec: RunSpec, function: Function) -> dict[str, Any]:
    """Return the arguments of a performance recipe that has variants."""
    variant = function.variants[str(spec.row_gpus)]
    return {"precision": PROGRAM_DTYPES[spec.dtype], "mock": True, "config_variant": variant}


def hub_files(spec: RunSpec) -> dict[str, bytes]:
    """Return the configurations of models that the run's recipe reads from the hub, as files of a cache.

    There are none for a run that uses the hub itself (`tokenizer=hub`).
    """
    recipes = published(spec.workload, spec.recipe)
    if recipes is None or settings(spec).tokenizer == "hub":
        return {}
    return cache_files([function.hub for function in recipes.functions.values() if function.hub])


def more_of_spec(spec: RunSpec) -> dict[str, Any]:
    """Return what the entry program gets besides the specification: `published` and `hub`, if the run has them."""
    members = {"published": overlay(spec), "hub": config_of(spec)}
    return {name: value for name, value in members.items() if value is not None}


def overlay(spec: RunSpec) -> dict[str, Any] | None:
    """Return what the entry program needs for this run: recipe module, fields to set, precision and buffers.

    Returns None for a run without a published configuration.
    """
    recipes = published(spec.workload, spec.recipe)
    if recipes is not None and spec.size in recipes.functions:
        function = recipes.functions[spec.size]
        members = {"function": function_of(spec, function), "layout": function.layout}
        return {**members, **({"arguments": arguments_of(spec, function)} if function.variants else {})}
    if recipes is None or spec.size not in recipes.recipes:
        return None
    fields: dict[str, Any] = {}
    for rule in recipes.fields:
        fields |= rule.set if rule.matches(spec) else {}
    buffers = next((rule.names[spec.dtype] for rule in recipes.buffers if rule.matches(spec)), None)
    scaling = settings(spec).fp8_recipe
    ends = recipes.precision.first_last_layers_bf16.get(scaling) if spec.dtype == "fp8" else None
    return {
        "module": recipes.recipes[spec.size],
        "versions": list(recipes.versions),
        "fields": fields,
        "precision": {} if ends is None else {"first_last_layers_bf16": ends},
        "buffers": buffers,
        "model": recipes.model,
        "flops_callback": recipes.flops_callback,
    }
