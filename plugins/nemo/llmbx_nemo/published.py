"""Published configurations as data: what a release's launch sets over the installed framework's own recipe."""

from __future__ import annotations

from importlib import resources
from typing import Any

from llmbx.model import RunSpec, Value
from llmbx.strict import read_toml


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
    """Fields (or whole sections) in which llmbx differs from upstream on purpose."""

    keys: tuple[str, ...]
    reason: str


class Precision(Value, frozen=True):
    """Changes to the precision recipe, by FP8 scaling."""

    first_last_layers_bf16: dict[str, bool] = {}


class Published(Value, frozen=True):
    """A release's file under `published/`."""

    source: str
    versions: tuple[str, ...]
    recipes: dict[str, str]
    precision: Precision = Precision()
    fields: tuple[Rule, ...] = ()
    buffers: tuple[Rule, ...] = ()
    permitted: tuple[Permitted, ...] = ()


def published(recipe: str) -> Published | None:
    """The data of a catalog recipe; None where the recipe is llmbx's own or has not been compared with upstream."""
    path = resources.files(__package__) / "published" / f"{recipe}.toml"
    return read_toml(path, Published) if path.is_file() else None


def overlay(spec: RunSpec) -> dict[str, Any] | None:
    """What the entry needs of it for this run: the recipe's module, the fields over it, precision and buffers."""
    found = published(spec.recipe)
    if found is None or spec.size not in found.recipes or spec.proxy:
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
    }
