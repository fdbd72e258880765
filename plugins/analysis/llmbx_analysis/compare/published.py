"""Compare runs, or logs whose work the user describes, with the published row for their configuration."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Reference, RunSpec, UsageError
from llmbx.api.verbs import Config, Plugins
from llmbx_verdict.statistics.run_variation import PUBLISHED, Spread

from ..audit import disputes_of
from ..audit.cases import resolve_row
from . import Comparison, Measured, MeasuredRun, compare_published
from .sides import published


def compare_with_published(
    runs: Sequence[Measured],
    plugins: Plugins,
    config: Config,
    tolerance: float,
    *,
    force: bool = False,
    spread: Spread = PUBLISHED,
    to_detect: float | None = None,
) -> Comparison:
    """Compare the runs or logs (repeats, newest last) with the published row of their configuration.

    Raises `UsageError` if there is no such row, or if a log's work is unknown. If the runs are not
    comparable with it, the result says so; with `force` it has the figures all the same. `spread` is that of this
    machine from run to run, for one run; `to_detect` is the difference (a fraction) that the data must be able to show.
    """
    spec = _spec(runs[-1], plugins, config)
    workload = plugins.workload(spec.workload, spec.plugin)
    row = published(spec, workload)
    disputed = [
        f"{d.field} {d.published:g}, recomputed {d.recomputed:g}" for d in disputes_of(row, workload, plugins, config)
    ]
    recipe = _recipe(spec, row, plugins, config)
    return compare_published(
        row, runs, recipe, tolerance, force=force, disputed=disputed, spread=spread, to_detect=to_detect
    )


def _spec(run: Measured, plugins: Plugins, config: Config) -> RunSpec:
    """The specification of a run; for a log, the one of the catalog for the work that the user describes."""
    if isinstance(run, MeasuredRun):
        return run.spec
    work = {key: run.work.get(key) for key in ("workload", "size", "dtype", "gpu_type", "gpus")}
    missing = [f"--{key.replace('_', '-')}" for key, value in work.items() if value is None]
    if missing:
        raise UsageError(f"--reference: {run.name} does not say what it trained: add {', '.join(missing)}")
    workload = plugins.workload(str(work.pop("workload")))
    size, dtype, gpu_type, gpus = work.values()
    return resolve_row(
        workload, plugins, config, size=str(size), dtype=str(dtype), gpu_type=str(gpu_type), gpus=int(gpus or 0),
        recipe=None,
    )  # fmt: skip


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
