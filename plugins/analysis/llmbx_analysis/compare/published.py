"""Holding runs against the published row for them: the row, what an audit says of it, and its own configuration."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.config.profiles import Config
from llmbx.errors import UsageError
from llmbx.model import Reference, RunSpec
from llmbx.plugins.manager import Plugins

from ..audit import disputes_of
from ..audit.gather import resolve_row
from . import Comparison, Measured, compare_published
from .select import published


def hold(
    runs: Sequence[Measured], plugins: Plugins, config: Config, tolerance: float, *, force: bool = False
) -> Comparison:
    """The runs (repeats, newest last) against what was published.

    Raises `UsageError` where nothing fits, unless forced.
    """
    spec = runs[-1].spec
    workload = plugins.workload(spec.workload, spec.plugin)
    row = published(spec, workload)
    disputed = [
        f"{d.field} {d.published:g}, the arithmetic gives {d.recomputed:g}"
        + (f" (explained by {d.explanation})" if d.explanation else "")
        for d in disputes_of(row, workload, plugins, config)
    ]
    recipe = _recipe(spec, row, plugins, config)
    return compare_published(row, runs, recipe, tolerance, force=force, disputed=disputed)


def _recipe(spec: RunSpec, row: Reference, plugins: Plugins, config: Config) -> RunSpec | None:
    """The configuration that the catalog has for the published row, None where it has none."""
    workload = plugins.workload(spec.workload, spec.plugin)
    try:
        return resolve_row(
            workload, plugins, config, size=row.size, dtype=row.dtype, gpu_type=row.gpu_type, gpus=row.gpus,
            recipe=row.recipe,
        )  # fmt: skip
    except UsageError:
        return None
