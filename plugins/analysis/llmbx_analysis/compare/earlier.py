"""How much the step time varies from run to run on a machine, from the repeats that its install has."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import LlmbxError, Scalar
from llmbx.api.verbs import Install, Plugins, Run, RunRecord, Selection, refresh_result
from llmbx_verdict.statistics.run_variation import PUBLISHED, Spread, learned

from .differences import LOCAL, same_setup
from .measured import Measured, MeasuredRun

MOST = 200
"""Number of the newest runs of the workload that are read."""


def spread_of(install: Install, runs: Sequence[Measured], plugins: Plugins) -> Spread:
    """The spread from run to run of earlier repeats of the work of `runs`, on the same machine and of the same user.

    Repeats have the same configuration, image and versions. The runs themselves do not count: they are judged by it.
    Without any, and if a log is compared, it is that of published repeats, as for more than two runs, whose own means
    tell it.
    """
    compared = [run for run in runs if isinstance(run, MeasuredRun)]
    if not compared or len(compared) < len(runs) or len(runs) > 2:
        return PUBLISHED
    newest = compared[-1].run
    groups: list[tuple[RunRecord, list[float]]] = []
    for run in _earlier(install, newest, {run.name for run in compared}, plugins):
        mean_s = _mean_s(run, plugins)
        if mean_s is None:
            continue
        group = next((means for first, means in groups if same_setup(first, run.record)), None)
        if group is None:
            groups.append((run.record, [mean_s]))
        else:
            group.append(mean_s)
    return learned(means for _, means in groups)


def _earlier(install: Install, newest: Run, compared: set[str], plugins: Plugins) -> list[Run]:
    """The other runs of the same work by the same user on the same machine."""
    spec = newest.record.spec
    work: dict[str, tuple[Scalar, ...]] = {
        "workload.name": (spec.workload,),
        "workload.size": (spec.size,),
        "workload.gpu_type": (spec.gpu_type,),
        "workload.gpus": (spec.gpus,),
    }
    return [
        run
        for run in plugins.history.select(install, Selection(equal=work, limit=MOST))
        if run.record.run_id not in compared
        and run.files.owner_id == newest.files.owner_id
        and _machine(run.record) == _machine(newest.record)
        and not run.record.spec.work_differences(spec)
    ]


def _machine(record: RunRecord) -> tuple[str, object]:
    """What runs must have in common: this computer, or the cluster of a launcher."""
    launcher = record.spec.launcher
    return launcher, record.host.get("hostname") if launcher == LOCAL else record.spec.cluster


def _mean_s(run: Run, plugins: Plugins) -> float | None:
    """The mean step time of a run that can be compared, in seconds; None if it cannot."""
    try:
        result = refresh_result(run, plugins)
    except LlmbxError:
        return None
    if result is None or not result.data_valid or result.profiled or result.traced:
        return None
    mean_s = result.step_time_s.mean
    return mean_s if mean_s is not None and mean_s > 0 else None
