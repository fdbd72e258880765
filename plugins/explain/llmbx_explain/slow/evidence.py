"""What a run recorded of its steps: one frozen value of step clocks, samples, marks, log and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from llmbx.api import LlmbxError, Result, RunFolder, RunSpec, Step
from llmbx.api.verbs import Run
from llmbx_telemetry.samples import Samples, read_samples
from llmbx_telemetry.steps import Mark, RankSteps, read_marks, read_steps

from .clocks import Clocks, Floats, align
from .counters import Counters

FINAL = "configs/final.json"
"""The framework's own final configuration."""
LAST = 1 << 31


@dataclass(frozen=True)
class Evidence:
    """What is known of one run. `clocks` is None without step clocks; `missing` says what, and why."""

    name: str
    clocks: Clocks | None = None
    counters: Counters | None = None
    marks: Mapping[str, Floats] = field(default_factory=dict)
    spec: RunSpec | None = None
    result: Result | None = None
    steps: Sequence[Step] = ()
    final: Mapping[str, Any] = field(default_factory=dict)
    threads: tuple[tuple[int | None, int | None], ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def step_s(self) -> float | None:
        """Mean step: by the clocks, else by the result."""
        if self.clocks is not None:
            return self.clocks.step_s
        return self.result.step_time_s.mean if self.result else None


def load(path: Path) -> Evidence:
    """Read what a run's folder has. Raises `UsageError` if its record cannot be read."""
    run = Run.read(path)
    result, steps = run.read_result(), _steps(run)
    recorded = load_folder(path, run.record.run_id, *_window(result, steps))
    return replace(recorded, spec=run.record.spec, result=result, steps=steps)


def load_folder(path: Path, name: str, first: int = 1, last: int = LAST) -> Evidence:
    """Read step clocks, samples, marks and the final configuration; of these zero-based steps."""
    ranks, samples = read_steps(path), read_samples(path)
    clocks = align(ranks, first, last) or align(ranks, 1, LAST)
    return Evidence(
        name=name,
        clocks=clocks,
        counters=of_samples(clocks, samples) if clocks else None,
        marks=marks_of(clocks, read_marks(path)) if clocks else {},
        final=_final(path),
        threads=tuple((rank.threads, rank.cores) for rank in ranks),
        missing=missing(ranks, samples, clocks),
    )


def _steps(run: Run) -> Sequence[Step]:
    try:
        return run.read_steps()
    except LlmbxError:
        return ()


def _window(result: Result | None, steps: Sequence[Step]) -> tuple[int, int]:
    """Zero-based steps of the window; all but the first without one."""
    window = result.window if result else None
    if window is None or window.first is None or window.last is None or not steps:
        return 1, LAST
    begin = steps[0].number
    return window.first - begin, window.last - begin


def _final(path: Path) -> Mapping[str, Any]:
    try:
        final = msgspec.json.decode(RunFolder(path=path).read(FINAL))
    except (OSError, msgspec.DecodeError):
        return {}
    values = final.get("final", final) if isinstance(final, dict) else {}
    return values if isinstance(values, dict) else {}


def of_samples(clocks: Clocks, samples: Sequence[Samples]) -> Counters:
    """Return the samples of each rank's node and of its GPU."""
    segments = tuple(_segment(samples, rank, node) for rank, node in zip(clocks.ranks, clocks.nodes, strict=True))
    gpus = tuple(
        None if segment is None else _gpu(segment, rank, uuid)
        for segment, rank, uuid in zip(segments, clocks.ranks, clocks.uuids, strict=True)
    )
    return Counters(clocks=clocks, segments=segments, gpus=gpus)


def _segment(samples: Sequence[Samples], rank: int, node: str) -> Samples | None:
    """The last start of the sampler that saw a rank; else that of its node."""
    of_rank = [each for each in samples if f"rank{rank}.state" in each.columns]
    of_node = [each for each in samples if each.node == node]
    return next(iter([*reversed(of_rank), *reversed(of_node)]), None)


def _gpu(samples: Samples, rank: int, uuid: str | None) -> str | None:
    """The rank's GPU: by its UUID, else by the driver's processes."""
    for gpu in samples.things("gpu"):
        if uuid is not None and samples.facts.get(gpu, {}).get("uuid") == uuid:
            return gpu
    used = samples.get(f"rank{rank}.gpu")
    used = used[~np.isnan(used)]
    return f"gpu{int(used[-1])}" if len(used) else None


def marks_of(clocks: Clocks, marks: Sequence[Mark]) -> dict[str, Floats]:
    """Return the seconds of each kind of mark in each period of each rank."""
    rows = {rank: row for row, rank in enumerate(clocks.ranks)}
    seconds: dict[str, Floats] = {}
    for mark in marks:
        row = rows.get(mark.rank)
        if row is None or not clocks.start[row, 0] <= mark.begin < clocks.end(row):
            continue
        place = int(np.searchsorted(clocks.start[row], mark.begin, side="right")) - 1
        kind = seconds.setdefault(mark.kind, np.zeros(clocks.own.shape))
        kind[row, place] += mark.seconds
    return seconds


def missing(ranks: Sequence[RankSteps], samples: Sequence[Samples], clocks: Clocks | None) -> dict[str, str]:
    """Return what was not collected, and why."""
    reasons: dict[str, str] = {}
    if not ranks:
        reasons["step clocks"] = "no rank wrote step_clocks/rank-N.bin"
    elif clocks is None:
        reasons["step clocks"] = "too few steps were measured by all ranks"
    elif not clocks.phases["wait"].any():
        reasons["waits of the ranks"] = "the step clocks saw no communication"
    if not samples:
        reasons["samples of the nodes"] = "telemetry/node-N.tsv was not written"
    for each in samples:
        for name, reason in each.missing.items():
            thing, dot, measure = name.partition(".")
            generic = f"gpu.{measure}" if dot and thing.startswith("gpu") else name
            reasons.setdefault(generic, reason)
    return reasons
