"""What this machine, or the cluster of a profile, can run: `llmbx list --here`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from llmbx.api import (
    Expected,
    GpuType,
    LlmbxError,
    Reference,
    RunSpec,
    UsageError,
    Value,
    Workload,
    workload_cases,
)

if TYPE_CHECKING:
    from llmbx.api.verbs import Request, Workspace

COLUMNS = ("workload", "size", "dtype", "gpus", "kind", "memory_gb", "time_50_steps", "from")

CPU, MINI, LOCAL = "cpu", "mini", "local"

STEPS = 50
"""Number of steps that times are given for: the recipes' own."""

NEWEST = 1000
"""Number of the newest runs of the install that are searched for times."""

UNFINISHED = ("unknown", "pending", "running")


class Machine(Value, frozen=True):
    """The GPUs of a machine or cluster: `gpus` is None for a cluster of any size.

    `types` are all known GPU types.
    """

    gpu: GpuType
    types: dict[str, GpuType]
    gpus: int | None
    where: str


class Cost(Value, frozen=True):
    """Step time in seconds and peak memory of a GPU in GB, with their source."""

    step_time_s: float | None = None
    memory_gb: float | None = None
    source: str | None = None


Case = tuple[str, str, str, str, int]
"""Workload, size, dtype, GPU type and number of GPUs."""

Predict = Callable[[Workload, Case], tuple[Expected, bool, Reference | None]]
"""The prediction for a case, whether it can run on these GPUs, and the published result for exactly
this work.
"""


def print_here(workloads: Sequence[Workload], cluster: str | None, format_: str) -> None:
    """Print what fits, instead of all sizes."""
    from llmbx.api.verbs import load_workspace, print_note, print_rows

    workspace = load_workspace()
    here = _machine(workspace, cluster)
    count = f"{here.gpus} x " if here.gpus and here.gpu.name != CPU else ""
    print_note(f"llmbx: {count}{here.gpu.name}: {here.where}")
    predict = predictions(workspace, cluster)
    listed = rows(workloads, here, measurements(workspace), predict)
    empty = f"no workload has a recipe for {here.gpu.name}"
    print_rows(listed, COLUMNS, format_, empty=empty)


def _machine(workspace: Workspace, cluster: str | None) -> Machine:
    """The cluster of the profile, if there is one; else this machine."""
    from llmbx.api.verbs import Request

    gpus = GpuType.extend(workspace.config.gpus)
    profile = workspace.profile(Request(workload="", cluster=cluster))
    if profile is None or profile.cluster.launcher == LOCAL:
        return this_machine(gpus)
    gpu_type = profile.cluster.gpu_type
    if gpu_type is None:
        raise UsageError(f"{profile.origin} has no gpu_type: set it there")
    gpu = GpuType.named(gpu_type, gpus)
    return Machine(gpu=gpu, types=gpus, gpus=None, where=profile.origin)


def this_machine(gpus: dict[str, GpuType]) -> Machine:
    """The GPUs of this machine, or its CPU."""
    detected = GpuType.detect(gpus)
    if detected is None:
        return Machine(gpu=gpus[CPU], types=gpus, gpus=1, where=no_gpu())
    gpu_type, count = detected
    several = len(GpuType.seen()) > 1
    where = "the GPUs of one type; this machine has several" if several else "this machine"
    here = GpuType.here(gpus)
    if here is not None and gpu_type not in gpus:
        where += f" ({here[1]})"
    return Machine(gpu=GpuType.named(gpu_type, gpus), types=gpus, gpus=count, where=where)


def no_gpu() -> str:
    """Why this machine's runs are minis on the CPU."""
    return GpuType.why_cpu() or "this machine has no GPU"


def rows(
    workloads: Iterable[Workload],
    here: Machine,
    measured: Mapping[Case, Cost],
    predict: Predict,
) -> list[dict[str, Any]]:
    """One row for each size, dtype and largest scale that the machine can run; for a cluster one
    for each scale.

    What cannot fit the memory by its prediction is left out, unless it has run, and so are rows of
    GPUs with more memory and scaled rows that are not known to fit.
    """
    return [
        _row(workload, case, cost, here, rows_of)
        for workload in workloads
        for case, rows_of in _cases(workload, here)
        if (cost := _cost(workload, case, measured, predict)) is not None
        and (case in measured or _may_run(workload, case, here, rows_of, cost))
    ]


def _may_run(workload: Workload, case: Case, here: Machine, rows_of: str, cost: Cost) -> bool:
    """Whether the row is its own, of a GPU with no more memory, or known to fit."""
    enough = here.gpu.has_memory_of(here.types.get(rows_of, here.gpu))
    return (enough and not _is_scaled(workload, case, rows_of)) or _fits(here, cost) is True


def _is_scaled(workload: Workload, case: Case, rows_of: str) -> bool:
    """Whether no recipe has this number of GPUs."""
    from llmbx.api.verbs import scales_of

    _, size, dtype, _, gpus = case
    rows = (row for recipe in workload.recipes for row in recipe.rows if row.size == size)
    of_dtype = [row for row in rows if rows_of in row.gpu_types and dtype in row.dtypes]
    scales = [scales_of(row.gpus) for row in of_dtype]
    return any(scales) and not any(gpus in counts for counts in scales)


def _fits(here: Machine, cost: Cost) -> bool | None:
    """Whether the memory suffices; None if it is not known."""
    if cost.memory_gb is None or here.gpu.memory_gb is None:
        return None
    return cost.memory_gb <= here.gpu.memory_gb


def _cases(workload: Workload, here: Machine) -> Iterator[tuple[Case, str]]:
    """All cases, each with the GPU type whose row it has."""
    for size, dtype, gpus, rows_of in workload_cases(workload, here.gpu, here.types, here.gpus):
        yield (workload.name, size, dtype, here.gpu.name, gpus), rows_of


def _cost(
    workload: Workload,
    case: Case,
    measured: Mapping[Case, Cost],
    predict: Predict,
) -> Cost | None:
    """What a case costs; None if it cannot fit the memory and has never run."""
    expected, fits, published = predict(workload, case)
    if not fits and case not in measured:
        return None
    return _completed(measured.get(case) or _published(published), expected)


def _row(workload: Workload, case: Case, cost: Cost, here: Machine, rows_of: str) -> dict[str, Any]:
    _, size, dtype, gpu_type, gpus = case
    fits = _fits(here, cost)
    above = f"; above the {here.gpu.memory_gb:.0f} GB of {gpu_type}" if fits is False else ""
    seconds = cost.step_time_s * STEPS if cost.step_time_s is not None else None
    return {
        "workload": workload.name,
        "plugin": workload.plugin,
        "size": size,
        "dtype": dtype,
        "gpu_type": gpu_type,
        "gpus": gpus,
        "kind": _kind(workload, case, rows_of),
        "layout_of": rows_of if rows_of != gpu_type else None,
        "memory_gb": cost.memory_gb,
        "time_50_steps": _duration(seconds) if seconds is not None else None,
        "time_50_steps_s": seconds,
        "from": f"{cost.source}{above}" if cost.source else None,
        "fits_memory": fits,
    }


def _kind(workload: Workload, case: Case, rows_of: str) -> str:
    _, size, _, gpu_type, _ = case
    if size == MINI:
        return "mini"
    kind = "part of a model" if workload.sizes[size].proxy else "benchmark"
    scaled = ", scaled" if _is_scaled(workload, case, rows_of) else ""
    return kind + scaled + (f", layout of {rows_of}" if rows_of != gpu_type else "")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def measurements(workspace: Workspace) -> dict[Case, Cost]:
    """Step time and memory of the newest valid run of each case in this install."""
    from llmbx.api.verbs import Selection

    _record_ended_runs(workspace)
    valid: dict[str, tuple[Any, ...]] = {"data_valid": (True,), "profiled": (False,)}
    measured: dict[Case, Cost] = {}
    selection = Selection(equal=valid, limit=NEWEST)
    for run in workspace.plugins.history.select(workspace.install, selection):
        spec = run.record.spec
        case = (spec.workload, spec.size, spec.dtype, spec.gpu_type, spec.gpus)
        result = run.read_result() if case not in measured else None
        if result is not None:
            measured[case] = Cost(
                step_time_s=result.step_time_s.mean,
                memory_gb=result.peak_memory_gb,
                source=f"run {run.record.id}",
            )
    return measured


def _record_ended_runs(workspace: Workspace) -> None:
    """Write the results of runs that have ended since somebody looked."""
    from llmbx.api.verbs import Selection, refresh_result

    for run in workspace.plugins.history.select(
        workspace.install, Selection(equal={"status": UNFINISHED})
    ):
        with suppress(LlmbxError):  # another user's, or of a plugin that is not installed
            refresh_result(run, workspace.plugins)


def _published(row: Reference | None) -> Cost:
    if row is None or row.step_time_s is None:
        return Cost()
    return Cost(step_time_s=row.step_time_s, source="published")


def _completed(cost: Cost, expected: Expected) -> Cost:
    """What is known, with predictions for the rest."""
    time, memory = cost.step_time_s, cost.memory_gb
    predicted = []
    if time is None and expected.step_time_s.value is not None:
        time = expected.step_time_s.value
        predicted.append("time")
    if memory is None and expected.memory_gb.value is not None:
        memory = float(round(expected.memory_gb.value))  # no more digits of it are known
        predicted.append("memory")
    if not predicted:
        return cost
    if cost.source is None:
        return Cost(step_time_s=time, memory_gb=memory, source="predicted")
    added = "predicted" if len(predicted) == 2 else f"{predicted[0]} predicted"
    return Cost(step_time_s=time, memory_gb=memory, source=f"{cost.source}, {added}")


def predictions(workspace: Workspace, cluster: str | None = None) -> Predict:
    """Predict by the configuration of the catalog. Each reason why nothing can be predicted is
    printed to stderr once.
    """
    from llmbx.api.verbs import print_note

    printed: set[str | None] = {None}
    too_large = _too_large(workspace)

    def predict(workload: Workload, case: Case) -> tuple[Expected, bool, Reference | None]:
        if CPU in case or MINI in case:
            return Expected(), True, None
        try:
            spec = workspace.resolve(_request(workload, case, cluster))
            expected, findings = workspace.expected(spec)
        except UsageError as error:
            return Expected(unknown_because=str(error)), True, None
        refused = not all(finding.warning for finding in (*spec.findings, *findings))
        runs = not refused and not too_large(spec)
        if runs and expected.unknown_because not in printed:
            printed.add(expected.unknown_because)
            print_note(f"llmbx: not predicted: {expected.unknown_because}")
        return expected, runs, spec.exact_row(workload)

    return predict


def _request(workload: Workload, case: Case, cluster: str | None) -> Request:
    from llmbx.api.verbs import Request

    name, size, dtype, gpu_type, gpus = case
    return Request(
        workload=name,
        plugin=workload.plugin,
        size=size,
        dtype=dtype,
        gpu_type=gpu_type,
        gpus=gpus,
        cluster=cluster,
    )


def _too_large(workspace: Workspace) -> Callable[[RunSpec], bool]:
    """Whether the launcher of a run can never start a job on so many nodes; asked once for each
    number of nodes.
    """
    launchers = workspace.plugins.launchers()
    answers: dict[tuple[str, int], bool] = {}

    def too_large(spec: RunSpec) -> bool:
        key = spec.launcher, spec.nodes
        if key not in answers:
            launcher = launchers[spec.launcher]
            answers[key] = launcher.available() is None and launcher.too_large(spec) is not None
        return answers[key]

    return too_large
