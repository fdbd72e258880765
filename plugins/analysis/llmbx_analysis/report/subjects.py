"""What a report is about: runs with their results and steps, joined to cells. A cell is one configuration. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from llmbx.cli.words import text
from llmbx.launchers.nodes import Node
from llmbx.model import Reference, Result, RunSpec, Section, Step, Value
from llmbx.record.folder import Record, Run

from ..compare import Comparison, Measured
from ..compare.measured import inside
from ..compare.why import differences

UNTOLD = 45
"""Differences below this weight do not get into the name of a cell."""

PASSING: dict[str, Any] = {
    "origins": {},
    "tags": (),
    "install": None,
    "walltime_minutes": None,
    "stall_timeout_s": None,
    "doubts": (),
    "accept_image_change": False,
}
"""Members of a specification that make no other configuration."""


class Subject(Value, frozen=True):
    """One run that has ended: result, every step, what its profilers tell of its artefacts, and its machines."""

    run: Run
    result: Result
    steps: tuple[Step, ...]
    sections: tuple[Section, ...] = ()
    nodes: tuple[Node, ...] = ()

    @property
    def record(self) -> Record:
        """What is known of the run besides its result."""
        return self.run.record

    @property
    def spec(self) -> RunSpec:
        """What was run."""
        return self.run.record.spec

    @property
    def measured_steps(self) -> tuple[Step, ...]:
        """The steps of the window, without those that do not count and those whose time is none (0, not finite)."""
        return tuple(step for step in self.steps if inside(step, self.result) and is_time(step.time_s))

    @property
    def sound(self) -> bool:
        """Whether there is a step time to speak of: measured, and of a run whose data is whole."""
        return self.result.data_valid and is_time(self.result.step_time_s.mean)

    @property
    def measured(self) -> Measured:
        """The run as a comparison takes it."""
        return Measured(self.run, self.result, self.measured_steps)


class Cell(Value, frozen=True):
    """One configuration: its repeats (oldest first), what they were held against, and published rows of any scale.

    `against` are comparisons with the published row and the baseline, `unheld` says why one could not be made.
    """

    name: str
    subjects: tuple[Subject, ...]
    against: tuple[Comparison, ...] = ()
    unheld: tuple[str, ...] = ()
    published: tuple[Reference, ...] = ()

    @property
    def newest(self) -> Subject:
        """The newest run, whose configuration stands for all."""
        return self.subjects[-1]

    @property
    def spec(self) -> RunSpec:
        """What was run."""
        return self.newest.spec

    @property
    def sound(self) -> tuple[Subject, ...]:
        """The runs that have a step time."""
        return tuple(subject for subject in self.subjects if subject.sound)


def is_time(seconds: float | None) -> bool:
    """Whether a step can have taken this long."""
    return seconds is not None and math.isfinite(seconds) and seconds > 0


def cells(subjects: Sequence[Subject]) -> list[Cell]:
    """Runs of one configuration (of a sweep: of one cell) joined, in the order of their first one.

    Each is named by what sets it apart, those of a sweep as the sweep calls them.
    """
    joined: dict[object, list[Subject]] = {}
    for subject in subjects:
        joined.setdefault(_place(subject), []).append(subject)
    groups = [sorted(group, key=lambda s: (s.record.created, s.record.run_id)) for group in joined.values()]
    records = [group[-1].record for group in groups]
    keys = [record.sweep.cell for record in records if record.sweep is not None]
    names = keys if len(set(keys)) == len(groups) else _names(records)
    return [Cell(name=name, subjects=tuple(group)) for name, group in zip(names, groups, strict=True)]


def _place(subject: Subject) -> object:
    mark = subject.record.sweep
    return (mark.sweep_id, mark.cell) if mark is not None else configuration(subject.spec)


def configuration(spec: RunSpec) -> bytes:
    """What makes two runs repeats of each other: everything that was asked for, not when or where it was kept."""
    return msgspec.json.encode(spec.replace(**PASSING), order="sorted")


def title(spec: RunSpec) -> str:
    """Workload, size, dtype and scale: `grok1 314b fp8, 128 × gb200`."""
    where = f"{spec.gpus} × {spec.gpu_type}"
    if spec.gpu_type == "cpu":
        where = f"CPU, {spec.gpus} rank{'s' if spec.gpus > 1 else ''}"
    return f"{spec.workload} {spec.size} {spec.dtype}, {where}"


def _names(records: Sequence[Record]) -> list[str]:
    """Titles; those that several share say what differs from the first of them, and are numbered where nothing does."""
    first: dict[str, Record] = {}
    names: list[str] = []
    for record in records:
        base = title(record.spec)
        name = base + _apart(first[base], record) if base in first else base
        first.setdefault(base, record)
        count = sum(1 for known in names if known == name or known.startswith(f"{name} #"))
        names.append(f"{name} #{count + 1}" if count else name)
    return names


def _apart(a: Record, b: Record) -> str:
    told = [d for d in differences(a, b) if d.weight >= UNTOLD][:3]
    return "".join(f", {d.what.replace('_', ' ')} {_short(d.b)}" for d in told)


def _short(value: Any) -> str:
    words = "unset" if value is None else text(value)
    return words if len(words) <= 30 else f"{words[:29]}…"
