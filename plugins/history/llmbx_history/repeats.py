"""Earlier repeats of a run's work on its machine, and what they measured."""

from __future__ import annotations

from collections.abc import Collection

from llmbx.api import LlmbxError, Scalar
from llmbx.api.verbs import Install, Plugins, Run, RunRecord, Selection, refresh_result

from .runs import select

MOST = 200
"""Number of the newest runs of the workload that are read."""
LOCAL = "local"
"""The launcher whose machine is this computer."""
SETUP = (
    "parallelism",
    "micro_batch_size",
    "cuda_graphs",
    "recompute_layers",
    "offload_layers",
    "settings",
    "env",
)
"""Fields of the specification that repeats have in common, beside the same work."""


def earlier_repeats(
    install: Install, run: Run, plugins: Plugins, compared: Collection[str]
) -> list[list[float]]:
    """The mean step times in seconds of earlier runs like `run`, those of each set-up together.

    They did the same work for the same user on the same machine; repeats of each other have the
    same configuration, image and versions. The `compared` runs, by id, do not count.
    """
    groups: list[tuple[tuple[object, ...], list[float]]] = []
    for earlier in _same_work(install, run):
        mean_s = None if earlier.record.run_id in compared else _mean_s(earlier, plugins)
        if mean_s is None:
            continue
        setup = _setup(earlier.record)
        means = next((means for known, means in groups if known == setup), None)
        if means is None:
            groups.append((setup, [mean_s]))
        else:
            means.append(mean_s)
    return [means for _, means in groups]


def _same_work(install: Install, run: Run) -> list[Run]:
    """The newest runs of the same work by the same user on the same machine."""
    spec = run.record.spec
    work: dict[str, tuple[Scalar, ...]] = {
        "workload.name": (spec.workload,),
        "workload.size": (spec.size,),
        "workload.gpu_type": (spec.gpu_type,),
        "workload.gpus": (spec.gpus,),
    }
    return [
        earlier
        for earlier in select(install, Selection(equal=work, limit=MOST))
        if earlier.files.owner_id == run.files.owner_id
        and _machine(earlier.record) == _machine(run.record)
        and not earlier.record.spec.work_differences(spec)
    ]


def _machine(record: RunRecord) -> tuple[str, object]:
    """What runs must have in common: this computer, or the cluster of a launcher."""
    launcher = record.spec.launcher
    return launcher, record.host.get("hostname") if launcher == LOCAL else record.spec.cluster


def _setup(record: RunRecord) -> tuple[object, ...]:
    """The configuration, image and versions of a run."""
    image = record.image
    return (
        *(getattr(record.spec, name) for name in SETUP),
        (image.kind, image.reference, image.digest) if image else None,
        record.versions,
    )


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
