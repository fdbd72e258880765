"""Upstream's final configurations of MaxText: its own program, executed with the arguments of upstream's launch.

`upstream/WORKLOAD-RECIPE-RELEASE.json` has them by size/dtype/GPU type/GPUs, with the differences to what all have in
`common`. The keys of the phase that collects a PGLE profile begin with `collect.`. `base` are the values by size that
MaxText's base.yml and the model's file give, without those that it computes. They are written by
benchmarks/maxtext_upstream.py.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

from llmbx.api import Permitted, RunSpec, Value, read_toml

from .releases import Release

COLLECT = "collect."
"""Begins the keys of the phase that collects a PGLE profile."""


class Upstream(Value, frozen=True):
    """Upstream's configurations of a recipe with one release of MaxText."""

    source: str
    """The programs that were executed."""
    common: dict[str, Any]
    """Values of all configurations."""
    configurations: dict[str, dict[str, Any]]
    """The other values by size/dtype/GPU type/GPUs."""
    base: dict[str, dict[str, Any]] = {}
    """Values by size without a launch; those of all sizes under the empty name."""
    gpu_types: dict[str, str] = {}
    """GPU types by those whose configuration they share, because the launch takes no GPU type."""

    def values(self, spec: RunSpec) -> dict[str, Any] | None:
        """The values of the run's row; None if they are not known."""
        gpu_type = self.gpu_types.get(spec.gpu_type, spec.gpu_type)
        own = self.configurations.get(f"{spec.size}/{spec.dtype}/{gpu_type}/{spec.gpus}")
        return None if own is None or spec.derived else {**self.common, **own}

    def base_of(self, size: str) -> dict[str, Any] | None:
        """The values of a size without a launch; None if they are not known."""
        return {**self.base.get("", {}), **self.base[size]} if size in self.base else None


class Difference(Value, frozen=True):
    """Keys in which llmbx's configuration may differ from upstream's, and why."""

    keys: tuple[str, ...]
    reason: str
    phases: tuple[str, ...] = ("", COLLECT)
    """Beginnings of the keys: of the measured phase, and of the phase that collects a profile."""
    recipes: tuple[str, ...] = ()
    """Recipes that it applies to; all if empty."""
    steps: bool = False
    """Whether it is permitted only in a run with another number of steps."""
    computed: bool = False
    """Whether it is permitted only in a configuration that lacks the key."""


@functools.cache
def upstream(workload: str, recipe: str, release: str) -> Upstream | None:
    """Return the configurations of a recipe with a release; None if they are not known."""
    file = resources.files(__package__) / "upstream" / f"{workload}-{recipe}-{release}.json"
    return Upstream(**json.loads(file.read_bytes())) if file.is_file() else None


def upstream_of(spec: RunSpec, release: Release) -> Upstream | None:
    """Return the configurations of the run's recipe and release."""
    return upstream(spec.workload, spec.recipe, release.name)


def permitted(recipe: str, ran: bool, other_steps: bool) -> tuple[Permitted, ...]:
    """Return the permitted differences of a run, or of a configuration that was built without one."""
    file = read_toml(resources.files(__package__) / "differences.toml", dict[str, list[Difference]])
    return tuple(
        Permitted(
            keys=tuple(f"{phase}{key}" for phase in entry.phases for key in entry.keys),
            reason=entry.reason,
            absent=entry.computed,
        )
        for entry in file["differences"]
        if (other_steps or not entry.steps) and not (ran and entry.computed) and recipe in (entry.recipes or (recipe,))
    )
