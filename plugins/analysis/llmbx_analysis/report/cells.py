"""The data of a report: finished runs, joined to cells. A cell is one configuration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import fields

from llmbx.api import HandlingRequest, Node, Reference, Result, RunSpec, Section, Step, Value, plural
from llmbx.api.verbs import Run
from llmbx.api.verbs import RunRecord as Record

from ..compare import Comparison, MeasuredRun
from ..compare.differences import differences
from ..compare.measured import inside
from ..formatting import text as format_value

NAME_WEIGHT = 45
"""Least weight of a difference that is part of the name of a cell."""

HANDLING = {field.name: field.default for field in fields(RunSpec) if field.name in HandlingRequest.__struct_fields__}
IGNORED: dict[str, Any] = {
    "origins": {},
    "tags": (),
    "install": None,
    "walltime_minutes": None,
    "findings": (),
    **HANDLING,
}
"""Fields of a specification that do not make a different configuration, with the values that replace them."""


class RunData(Value, frozen=True):
    """A run that has ended: its result, all steps, the report sections of its profilers, and its nodes."""

    run: Run
    result: Result
    steps: tuple[Step, ...]
    sections: tuple[Section, ...] = ()
    nodes: tuple[Node, ...] = ()

    @property
    def record(self) -> Record:
        """The record of the run."""
        return self.run.record

    @property
    def spec(self) -> RunSpec:
        """The specification of the run."""
        return self.run.record.spec

    @property
    def measured_steps(self) -> tuple[Step, ...]:
        """The measured steps of the window that have a valid time."""
        return tuple(step for step in self.steps if inside(step, self.result) and is_time(step.time_s))

    @property
    def valid(self) -> bool:
        """Whether the run has valid data and a mean step time."""
        return self.result.data_valid and is_time(self.result.step_time_s.mean)

    @property
    def measured(self) -> MeasuredRun:
        """The run as a side of a comparison."""
        return MeasuredRun(run=self.run, result=self.result, steps=self.measured_steps)


class Cell(Value, frozen=True):
    """One configuration: its repeats (oldest first), its comparisons, and the published rows of all scales.

    `comparisons` are with the baseline and the published row. `not_compared` has the reasons if one is not possible.
    """

    name: str
    runs: tuple[RunData, ...]
    comparisons: tuple[Comparison, ...] = ()
    not_compared: tuple[str, ...] = ()
    published: tuple[Reference, ...] = ()

    @property
    def newest(self) -> RunData:
        """The newest run. Its configuration is used for the cell."""
        return self.runs[-1]

    @property
    def spec(self) -> RunSpec:
        """The specification of the run."""
        return self.newest.spec

    @property
    def valid_runs(self) -> tuple[RunData, ...]:
        """The runs with valid data and a mean step time."""
        return tuple(run for run in self.runs if run.valid)


def is_time(seconds: float | None) -> bool:
    """Whether this is a valid step time: finite and above 0."""
    return seconds is not None and math.isfinite(seconds) and seconds > 0


def cells(runs: Sequence[RunData]) -> list[Cell]:
    """Group runs with the same configuration (of a sweep: of the same cell), in the order of their first run.

    Cells of a sweep keep their keys as names. Others are named by workload, scale and the differences between them.
    """
    joined: dict[object, list[RunData]] = {}
    for run in runs:
        joined.setdefault(_group_key(run), []).append(run)
    groups = [sorted(group, key=lambda s: (s.record.created, s.record.run_id)) for group in joined.values()]
    records = [group[-1].record for group in groups]
    keys = [record.sweep.cell for record in records if record.sweep is not None]
    names = keys if len(set(keys)) == len(groups) else _names(records)
    return [Cell(name=name, runs=tuple(group)) for name, group in zip(names, groups, strict=True)]


def _group_key(run: RunData) -> object:
    mark = run.record.sweep
    return (mark.sweep_id, mark.cell) if mark is not None else configuration(run.spec)


def configuration(spec: RunSpec) -> bytes:
    """The key of a configuration. Runs with the same key are repeats of each other."""
    return msgspec.json.encode(spec.replace(**IGNORED), order="sorted")


def title(spec: RunSpec) -> str:
    """Workload, size, dtype and scale: `grok1 314b fp8, 128 × gb200`."""
    where = f"{spec.gpus} × {spec.gpu_type}"
    if spec.gpu_type == "cpu":
        where = f"CPU, {plural(spec.gpus, 'ranks')}"
    return f"{spec.workload} {spec.size} {spec.dtype}, {where}"


def _names(records: Sequence[Record]) -> list[str]:
    """Unique names: titles, with the differences from the first record of the same title, else with a number."""
    first: dict[str, Record] = {}
    names: list[str] = []
    for record in records:
        base = title(record.spec)
        name = base + _difference_suffix(first[base], record) if base in first else base
        first.setdefault(base, record)
        count = sum(1 for earlier in names if earlier == name or earlier.startswith(f"{name} #"))
        names.append(f"{name} #{count + 1}" if count else name)
    return names


def _difference_suffix(a: Record, b: Record) -> str:
    shown = [d for d in differences(a, b) if d.weight >= NAME_WEIGHT][:3]
    return "".join(f", {d.what.replace('_', ' ')} {_short(d.b)}" for d in shown)


def _short(value: Any) -> str:
    shown = "unset" if value is None else format_value(value)
    return shown if len(shown) <= 30 else f"{shown[:29]}…"
