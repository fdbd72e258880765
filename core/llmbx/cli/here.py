"""What this machine, or the cluster of a profile, can run: `llmbx list --here`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from ..catalog import hardware, workloads
from ..config.install import Install
from ..config.request import Request
from ..errors import UsageError
from ..model import Expected, Reference, Value, Workload
from ..model.workload import Kind
from ..plugins.manager import Plugins
from ..run.expectation import duration
from .output import Row
from .workspace import Workspace

COLUMNS = ("workload", "size", "dtype", "gpus", "kind", "memory_gb", "time_50_steps", "from")

STEPS = 50
"""Number of steps that times are given for: the recipes' own."""

NEWEST = 1000
"""Number of the newest runs of the install that are searched for times."""


class Machine(Value, frozen=True):
    """The GPUs of a machine or cluster: `gpus` is None for a cluster, whose size is not known here."""

    gpu_type: str
    gpus: int | None
    where: str


class Known(Value, frozen=True):
    """Step time in seconds and peak memory of a GPU in GB, with their source."""

    step_time_s: float | None = None
    memory_gb: float | None = None
    source: str | None = None


Case = tuple[str, str, str, str, int]
"""Workload, size, dtype, GPU type and number of GPUs."""

Predict = Callable[[Workload, Case], tuple[Expected, bool]]
"""The prediction for a case, and whether it can fit the memory of the GPU."""


def machine(gpu_type: str | None, origin: str, gpus: Mapping[str, hardware.GpuType]) -> Machine:
    """The cluster with this GPU type, which `origin` names; without a type, this machine."""
    if gpu_type is not None:
        return Machine(gpu_type=hardware.gpu(gpu_type, gpus).name, gpus=None, where=origin)
    found = hardware.detect(gpus)
    if found is None:
        return Machine(gpu_type=workloads.CPU, gpus=1, where=no_gpu())
    several = len(set(hardware.product_names())) > 1
    where = "the GPUs of one type; this machine has several" if several else "this machine"
    return Machine(gpu_type=found[0], gpus=found[1], where=where)


def no_gpu() -> str:
    """Why this machine's runs are minis on the CPU."""
    names = hardware.product_names()
    if not names:
        return hardware.driver_problem() or "this machine has no GPU"
    return f"this machine's GPU ({names[0]}) has no known type: set it with --gpu-type or in llmbx.toml"


def rows(
    chosen: Iterable[Workload], here: Machine, measured: Mapping[Case, Known], predict: Predict
) -> list[Row]:  # fmt: skip
    """One row for each size, dtype and largest scale that the machine can run; for a cluster one for each scale.

    What cannot fit the memory by its prediction is left out, unless it has run.
    """
    found = (
        _row(workload, size, dtype, count, here, measured, predict)
        for workload in chosen
        for size, dtype, count in _cases(workload, here)
    )
    return [row for row in found if row is not None]


def measurements(install: Install, plugins: Callable[[], Plugins]) -> dict[Case, Known]:
    """Step time and memory of the newest valid run of each case in this install."""
    from ..history import list_runs
    from ..history.query import Selection

    names = ("workload.name", "workload.size", "workload.dtype", "workload.gpu_type", "workload.gpus",
             "step_time_s.mean", "peak_memory_gb", "id")  # fmt: skip
    wanted = Selection(equal={"data_valid": (True,), "profiled": (False,)}, limit=NEWEST)
    found: dict[Case, Known] = {}
    for *case, step_time, memory, name in list_runs(install, plugins, wanted, names).rows:
        known = Known(step_time_s=_number(step_time), memory_gb=_number(memory), source=f"run {name}")
        found.setdefault(tuple(case), known)  # type: ignore[arg-type]
    return found


def _cases(workload: Workload, here: Machine) -> Iterator[tuple[str, str, int]]:
    for size in workload.sizes:
        for dtype in workloads.known_dtypes(workload, size, here.gpu_type) if size != workloads.MINI else ():
            counts = workloads.known_scales(workload, size, dtype, here.gpu_type)
            if here.gpus is not None:
                counts = [count for count in counts if count <= here.gpus][-1:]
            yield from ((size, dtype, count) for count in counts)
    if workloads.MINI in workload.sizes:
        usual = workloads.default_dtype(workload, workloads.MINI, here.gpu_type)
        if usual is not None:
            yield workloads.MINI, usual, 1


def _row(
    workload: Workload, size: str, dtype: str, gpus: int, here: Machine, measured: Mapping[Case, Known],
    predict: Predict,
) -> dict[str, Any] | None:  # fmt: skip
    case = (workload.name, size, dtype, here.gpu_type, gpus)
    expected, fits = predict(workload, case)
    if not fits and case not in measured:
        return None
    known = _completed(measured.get(case) or _published(workload, case), expected)
    seconds = known.step_time_s * STEPS if known.step_time_s is not None else None
    kind = "mini" if size == workloads.MINI else "part of a model" if workload.sizes[size].proxy else "benchmark"
    return {
        "workload": workload.name,
        "plugin": workload.plugin,
        "size": size,
        "dtype": dtype,
        "gpu_type": here.gpu_type,
        "gpus": gpus,
        "kind": kind,
        "memory_gb": known.memory_gb,
        "time_50_steps": duration(seconds) if seconds is not None else None,
        "time_50_steps_s": seconds,
        "from": known.source,
    }


def _published(workload: Workload, case: Case) -> Known:
    kinds: Sequence[Kind] = ("table", "example", "other")
    found = [
        row for row in workload.references
        if (workload.name, row.size, row.dtype, row.gpu_type, row.gpus) == case and row.step_time_s is not None
    ]  # fmt: skip
    best: Reference | None = min(found, key=lambda row: kinds.index(row.kind), default=None)
    return Known() if best is None else Known(step_time_s=best.step_time_s, source="published")


def _completed(known: Known, expected: Expected) -> Known:
    """What is known, with predictions for the rest."""
    time, memory = known.step_time_s, known.memory_gb
    added = [name for name, missing, bounds in (("time", time is None, expected.step_time_s),
                                                ("memory", memory is None, expected.memory_gb))
             if missing and bounds.value is not None]  # fmt: skip
    if not added:
        return known
    predicted = "predicted" if len(added) == 2 or known.source is None else f"{added[0]} predicted"
    return Known(
        step_time_s=expected.step_time_s.value if time is None else time,
        memory_gb=_whole(expected.memory_gb.value) if memory is None else memory,
        source=predicted if known.source is None else f"{known.source}, {predicted}",
    )


def _whole(gb: float | None) -> float | None:
    """A predicted memory, of which no more digits are known."""
    return None if gb is None else float(round(gb))


def predictions(workspace: Workspace) -> Predict:
    """Predict by the configuration of the catalog. Why nothing can be predicted is printed to stderr, once."""
    said: set[str | None] = {None}

    def predict(workload: Workload, case: Case) -> tuple[Expected, bool]:
        name, size, dtype, gpu_type, gpus = case
        if gpu_type == workloads.CPU or size == workloads.MINI:
            return Expected(), True
        request = Request(workload=name, plugin=workload.plugin, size=size, dtype=dtype, gpu_type=gpu_type, gpus=gpus)
        try:
            found, needs = workspace.expected(workspace.resolve(request))
        except UsageError as error:
            found, needs = Expected(unknown_because=str(error)), []
        if found.unknown_because not in said:
            said.add(found.unknown_because)
            click.echo(f"llmbx: not predicted: {found.unknown_because}", err=True)
        return found, all(finding.warning for finding in needs)

    return predict


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
