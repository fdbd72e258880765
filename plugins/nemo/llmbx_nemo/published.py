"""Published configurations as data: what a release's launch sets over the installed framework's own recipe."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import resources
from typing import Any

from llmbx.model import RunSpec, Value
from llmbx.toml_file import read_toml


class Rule(Value, frozen=True):
    """Which runs it holds for (everything that is left out matches), and the fields it sets or the buffers it names."""

    sizes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()
    fsdp: bool | None = None
    set: dict[str, bool | int | float | str] = {}
    names: dict[str, str] = {}

    def holds(self, spec: RunSpec) -> bool:
        """Whether the rule is for this run."""
        return (
            spec.size in (self.sizes or (spec.size,))
            and spec.dtype in (self.dtypes or (spec.dtype,))
            and spec.gpu_type in (self.gpu_types or (spec.gpu_type,))
            and self.fsdp in (None, bool(spec.parallelism.fsdp))
        )


class Permitted(Value, frozen=True):
    """Fields (or whole sections, or patterns) in which llmbx differs from upstream on purpose.

    `absent`: only where the installed version has no such field.
    """

    keys: tuple[str, ...]
    reason: str
    absent: bool = False

    def covers(self, key: str, there: bool) -> bool:
        """Whether a difference in `key` is permitted; `there` is whether llmbx's configuration has the key."""
        named = any(key.startswith(f"{each}.") or fnmatchcase(key, each) for each in self.keys)
        return named and not (self.absent and there)


class Precision(Value, frozen=True):
    """Changes to the precision recipe, by FP8 scaling."""

    first_last_layers_bf16: dict[str, bool] = {}


class Published(Value, frozen=True):
    """A release's file under `published/`: `WORKLOAD-RECIPE.toml`.

    `recipes` names the module of the installed framework's recipe for each size. Of NeMo 2 alone: `model` is a class in
    place of the recipe's, `flops_callback` the model's name for NeMo's own measurement of FLOPs.
    """

    source: str
    versions: tuple[str, ...]
    recipes: dict[str, str]
    model: str | None = None
    flops_callback: str | None = None
    precision: Precision = Precision()
    fields: tuple[Rule, ...] = ()
    buffers: tuple[Rule, ...] = ()
    permitted: tuple[Permitted, ...] = ()

    def permits(self, key: str, there: bool = True) -> bool:
        """Whether a difference from upstream in `key` is permitted."""
        return any(entry.covers(key, there) for entry in self.permitted)


def published(workload: str, recipe: str) -> Published | None:
    """The data of a catalog recipe; a mini shares its recipe's. None for a recipe of llmbx's own."""
    path = resources.files(__package__) / "published" / f"{workload}-{recipe.removesuffix('-mini')}.toml"
    return read_toml(path, Published) if path.is_file() else None


def overlay(spec: RunSpec) -> dict[str, Any] | None:
    """What the entry needs of it for this run: the recipe's module, the fields over it, precision and buffers."""
    found = published(spec.workload, spec.recipe)
    if found is None or spec.size not in found.recipes:
        return None
    fields: dict[str, Any] = {}
    for rule in found.fields:
        fields |= rule.set if rule.holds(spec) else {}
    buffers = next((rule.names[spec.dtype] for rule in found.buffers if rule.holds(spec)), None)
    scaling = str(spec.settings.get("fp8_recipe", "cs"))
    ends = found.precision.first_last_layers_bf16.get(scaling) if spec.dtype == "fp8" else None
    return {
        "module": found.recipes[spec.size],
        "versions": list(found.versions),
        "fields": fields,
        "precision": {} if ends is None else {"first_last_layers_bf16": ends},
        "buffers": buffers,
        "model": found.model,
        "flops_callback": found.flops_callback,
    }
