"""Fixtures that store finished runs without running anything, and a framework plugin for their workload."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pluggy
import pytest

from llmbx import hookimpl, hookspecs
from llmbx.config.install import Install
from llmbx.logs.parser import LogFormat, LogParser
from llmbx.measure.figures import measure
from llmbx.model import (
    Figure,
    Image,
    JobStatus,
    Measure,
    ModelShape,
    Peak,
    ProfileSpec,
    Reference,
    RunSpec,
    Step,
    Workload,
)
from llmbx.model.flops import Flops
from llmbx.model.workload import Recipe, Row, Size
from llmbx.plugins.manager import Plugins, load
from llmbx.record.folder import Record, Run, current_user, write_record, write_result, write_steps
from llmbx.record.short_ids import derived
from llmbx.run.result import build_result

PEAK = Peak(tflops=989.0, name="H100 dense BF16", source="test")
FLOPS = Flops(full=8e13, causal=6e13, formula="toy, version 1")
CREATED = 1_700_000_000
Measures = Sequence[tuple[Measure, Sequence[float]]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    return Install(root=str(tmp_path / "install"), origin="test")


@pytest.fixture
def spec(make_spec: Callable[..., RunSpec]) -> RunSpec:
    """A run on 8 H100 GPUs that has a published row."""
    return example_spec(make_spec)


def example_spec(make_spec: Callable[..., RunSpec]) -> RunSpec:
    """The specification of the stored runs."""
    return make_spec(size="1b", gpus=8, gpus_per_node=8, global_batch_size=64, peak=PEAK, steps=50, window="11-44")


def noise(seed: int, mean: float, count: int = 50, spread: float = 0.004) -> list[float]:
    source = random.Random(seed)
    return [mean * (1 + spread * source.gauss(0, 1)) for _ in range(count)]


class RunFactory:
    """Stores finished runs in an install."""

    def __init__(self, install: Install, spec: RunSpec) -> None:
        self.install, self.spec, self.made = install, spec, 0

    def put(self, times: Sequence[float], *, valid: bool = True, record: dict[str, Any] | None = None,
            result: dict[str, Any] | None = None, measures: Measures = (), **changes: Any) -> Run:  # fmt: skip
        """Store a run with these step times in seconds, and the values of these measures, for as many steps as it has
        values. `changes` are changes of its specification.
        """
        spec = self.spec.replace(**changes)
        self.made += 1
        run_id = f"{spec.experiment}_{CREATED + self.made}"
        folder = self.install.experiments(spec.folder) / spec.experiment / run_id / spec.experiment
        folder.mkdir(parents=True)
        facts: dict[str, Any] = {
            "image": Image(kind="container", reference="toy:1", python="python", digest="sha256:aaaa"),
            "versions": {"torch": "2.8.0"},
            "host": {"hostname": "node1", "driver": "570.1", "load_1min": self.made},
            "environment": {"PWD": f"/somewhere/{self.made}", "NCCL_IB_SL": "1"},
        }
        facts |= {"id": derived(run_id), "user": current_user()} | (record or {})
        entry = Record(
            run_id=run_id, spec=spec, created=CREATED + self.made, llmbx_version="0.1.0", command=("run",), **facts
        )
        named = [{m.name: values[i] for m, values in measures if i < len(values)} for i in range(len(times))]
        steps = [
            Step(number=i, time_s=time, total=len(times) - 1, loss=1.0, measures=named[i])
            for i, time in enumerate(times)
        ]
        declared = [kind for kind, _ in measures]
        figures = measure(spec, steps, FLOPS, declared=declared, judge=load().judge)
        outcome = build_result(entry, JobStatus(state="ended", exit_code=0), figures).replace(
            **{"status": "completed" if valid else "failed", "data_valid": valid, **(result or {})}
        )
        write_record(folder, entry)
        write_steps(folder, steps)
        write_result(folder, outcome)
        return Run(folder=str(folder), record=entry)


@pytest.fixture
def run_factory(install: Install, spec: RunSpec) -> RunFactory:
    return RunFactory(install, spec)


class Silent(LogParser):
    """A log parser that finds nothing."""

    def feed(self, line: str) -> list[Any]:
        return []


class Toy:
    """The framework plugin of the stored runs."""

    references: tuple[Reference, ...] = ()

    def __init__(self, model: ModelShape) -> None:
        self.model = model

    @hookimpl
    def register_workloads(self) -> list[Workload]:
        rows = (Row(size="1b", dtypes=("bf16",), gpu_types=("h100",), gpus=("8",), gbs=64),)
        recipe = Recipe(name="plain", title="The recipe", released="1.0", source="test", driver="python", rows=rows)
        sizes = {"1b": Size(model=self.model)}
        return [
            Workload(name="line", title="Line", folder="fit_line", sizes=sizes, recipes=(recipe,),
                     references=self.references)
        ]  # fmt: skip

    @hookimpl
    def check_spec(self, spec: RunSpec) -> list[Any]:
        return []

    @hookimpl
    def compute_flops(self, spec: RunSpec) -> Flops:
        return FLOPS

    @hookimpl
    def parse_log(self, spec: RunSpec | None) -> list[LogFormat]:
        return [LogFormat("silent", "Silent", lambda text: 0, Silent)]


@pytest.fixture
def toy(spec: RunSpec) -> Toy:
    return Toy(spec.model)


@pytest.fixture
def plugins(toy: Toy) -> Plugins:
    return plugins_with(toy)


def plugins_with(toy: Toy) -> Plugins:
    """The plugin of the stored runs, and the judge of llmbx."""
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    registry.register(toy, name="toy")
    loaded = Plugins(registry, [])
    loaded.judge = load().judge
    loaded.history = load().history
    return loaded


@pytest.fixture
def row(spec: RunSpec) -> Reference:
    """The published row for the runs: a step time of 1 s, with the matching tokens/s and MFU."""
    rate = spec.model.sequence_length * 64 / 1.0
    return Reference(
        source="The recipe, table", size="1b", dtype="bf16", gpu_type="h100", gpus=8, recipe="plain", step_time_s=1.0,
        tokens_per_s=rate, mfu=64 * FLOPS.full / 8 / 989e12, days_per_1t_tokens=1e12 / rate / 86400,
        global_batch_size=64, peak_tflops=989.0, convention="full",
    )  # fmt: skip


class Profiler:
    """A profiler that reads its metrics from a file in the run folder."""

    @hookimpl
    def figures(self, spec: RunSpec, run_dir: Path) -> list[Figure]:
        file = run_dir / "exposed.json"
        return [msgspec.json.decode(file.read_bytes(), type=Figure)] if file.exists() else []


@pytest.fixture
def profiled(run_factory: RunFactory, plugins: Plugins) -> Callable[..., Run]:
    """`profiled(values, step_s=1.0)`: a profiled run with this exposed communication per step, in seconds."""
    plugins.manager.register(Profiler(), name="watch")

    def put(values: Sequence[float], step_s: float | None = 1.0, **changes: Any) -> Run:
        values_of = ProfileSpec(start=45, stop=50, tool="watch")
        run = run_factory.put(
            noise(7, 1.0), result={"profiled": True}, profile=values_of, profilers=("watch",), **changes
        )
        figure = Figure(name="exposed_communication", unit="s", values=tuple(values), step_s=step_s)
        (run.path / "exposed.json").write_bytes(msgspec.json.encode(figure))
        return run

    return put
