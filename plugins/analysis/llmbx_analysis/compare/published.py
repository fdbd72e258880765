"""Compare runs with the published row for their configuration."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Reference, RunSpec, UsageError
from llmbx.api.verbs import Config, Plugins

from ..audit import disputes_of
from ..audit.cases import resolve_row
from . import Comparison, Measured, compare_published
from .sides import published


def compare_with_published(
    runs: Sequence[Measured], plugins: Plugins, config: Config, tolerance: float, *, force: bool = False
) -> Comparison:
    """Compare the runs (repeats, newest last) with the published row of their configuration.

    Raises `UsageError` if there is no such row. If the runs are not comparable with it, the result says so; with
    `force` it has the figures all the same.
    """
    spec = runs[-1].spec
    workload = plugins.workload(spec.workload, spec.plugin)
    row = published(spec, workload)
    disputed = [
        f"{d.field} {d.published:g}, recomputed {d.recomputed:g}" for d in disputes_of(row, workload, plugins, config)
    ]
    recipe = _recipe(spec, row, plugins, config)
    return compare_published(row, runs, recipe, tolerance, force=force, disputed=disputed)


def _recipe(spec: RunSpec, row: Reference, plugins: Plugins, config: Config) -> RunSpec | None:
    """The configuration of the published row in the catalog, or None."""
    workload = plugins.workload(spec.workload, spec.plugin)
    try:
        return resolve_row(
            workload, plugins, config, size=row.size, dtype=row.dtype, gpu_type=row.gpu_type, gpus=row.gpus,
            recipe=row.recipe,
        )  # fmt: skip
    except UsageError:
        return None
