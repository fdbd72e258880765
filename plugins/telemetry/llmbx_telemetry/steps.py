"""Read the ranks' step clocks, and find the rank for which the others wait (docs/telemetry.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmbx.api import RunFile, RunFolder
from llmbx.api.verbs import Observed

from .entry.step_clock import COLUMNS, FOLDER, MAGIC, UNKNOWN

Floats = NDArray[np.float64]
RECORD = np.dtype([("step", "<u4"), ("start", "<i8"), *((name, "<u4") for name in COLUMNS)])
LARGEST = 1 << 28

CHANCE = 0.00135
"""A rank is the slowest if this is the chance, with even ranks, that any waits less by so much."""
LEAST_SHARE = 0.01
"""And if what it costs is at least this share of a step."""
LEAST_STEPS = 5


@dataclass(frozen=True)
class RankSteps:
    """The steps of one rank, in seconds: `start` by its node's monotonic clock, and `columns`.

    `step` counts from 0. A column has NaN where a duration is unknown. `wall` is what to add to a
    monotonic time to get epoch seconds by the node's clock. `threads` are those of PyTorch, `cores`
    those that the process may use.
    """

    rank: int
    node: str
    boot_id: str
    device: str
    gpu_uuid: str | None
    wall: float
    step: NDArray[np.int64]
    start: Floats
    columns: dict[str, Floats]
    threads: int | None = None
    cores: int | None = None

    @property
    def end(self) -> Floats:
        """When each step ended, as `start`; of a GPU, when the host had started it."""
        ends: Floats = self.start + self.columns["total"]
        return ends

    def of(self, first: int, last: int) -> NDArray[np.bool_]:
        """Return which steps are among these numbers."""
        chosen: NDArray[np.bool_] = (self.step >= first) & (self.step <= last)
        return chosen

    def times(self, first: int, last: int) -> tuple[float, float] | None:
        """Return when these steps began and ended, in epoch seconds; None if there are none."""
        chosen = self.of(first, last)
        if not chosen.any():
            return None
        return float(self.start[chosen][0] + self.wall), float(self.end[chosen][-1] + self.wall)


def read_steps(run_dir: Path) -> list[RankSteps]:
    """Return the steps of all ranks that measured them, in the order of their numbers."""
    files = RunFolder(path=run_dir).glob(f"{FOLDER}/rank-*.bin")
    ranks = [steps for file in files if (steps := read_rank(file)) is not None]
    return sorted(ranks, key=lambda steps: steps.rank)


def read_rank(file: RunFile) -> RankSteps | None:
    """Return the steps in one file; None if it has none, or is not one."""
    try:
        with file.open() as opened:
            return parse(opened.read(LARGEST))
    except OSError:
        return None


def parse(content: bytes) -> RankSteps | None:
    """Parse the content of a file. An incomplete last record is ignored."""
    begin = len(MAGIC) + 4
    if not content.startswith(MAGIC) or len(content) < begin:
        return None
    first = begin + int.from_bytes(content[len(MAGIC) : begin], "little")
    try:
        head: dict[str, Any] = json.loads(content[begin:first])
        rank, wall = int(head["rank"]), (int(head["wall_ns"]) - int(head["monotonic_ns"])) / 1e9
        known = tuple(head["columns"]) == COLUMNS
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    records = np.frombuffer(content, RECORD, (len(content) - first) // RECORD.itemsize, first)
    if not known or not len(records):
        return None
    uuid = head.get("gpu_uuid")
    return RankSteps(
        rank=rank,
        node=str(head.get("node", "")),
        boot_id=str(head.get("boot_id", "")),
        device=str(head.get("device", "")),
        gpu_uuid=uuid if isinstance(uuid, str) else None,
        wall=wall,
        step=records["step"].astype(np.int64),
        start=records["start"] / 1e9,
        columns={name: _seconds(records[name]) for name in COLUMNS},
        threads=_whole(head.get("threads")),
        cores=_whole(head.get("cores")),
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Mark:
    """Something that a rank did besides the usual work of its steps, by its monotonic clock."""

    rank: int
    kind: str
    begin: float
    seconds: float


def read_marks(run_dir: Path) -> list[Mark]:
    """Return what ranks noted of collections of garbage, checkpoints, evaluations, compilations."""
    marks = []
    for file in RunFolder(path=run_dir).glob(f"{FOLDER}/rank-*.marks"):
        number = file.name.removeprefix("rank-").removesuffix(".marks")
        try:
            with file.open() as opened:
                lines = opened.read(LARGEST).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        for words in (line.split("\t") for line in lines):
            if number.isdigit() and len(words) == 3 and words[1].isdigit() and words[2].isdigit():
                begin, seconds = int(words[1]) / 1e9, int(words[2]) / 1e6
                marks.append(Mark(int(number), words[0], begin, seconds))
    return marks


def _seconds(values: NDArray[np.uint32]) -> Floats:
    return np.where(values == UNKNOWN, np.nan, values / 1e6)


def offset(steps: RankSteps, first: RankSteps) -> tuple[float, float]:
    """Return what to add to a rank's monotonic times to get those of `first`, and its uncertainty.

    Ranks of one boot of one node have the same clock. Others end their steps together, after the
    optimizer's communication; the median difference of the ends is the offset.
    """
    if steps.boot_id and steps.boot_id == first.boot_id:
        return 0.0, 0.0
    _, own, their = np.intersect1d(steps.step, first.step, return_indices=True)
    if len(own) < LEAST_STEPS:
        return steps.wall - first.wall, float("nan")
    differences = first.end[their] - steps.end[own]
    middle = float(np.median(differences))
    return middle, float(np.median(np.abs(differences - middle)))


def matrix(ranks: Sequence[RankSteps], name: str, first: int, last: int) -> Floats:
    """Return a column of the steps that all ranks measured: a row for each rank."""
    shared = set.intersection(*(set(rank.step[rank.of(first, last)].tolist()) for rank in ranks))
    numbers = np.array(sorted(shared), dtype=np.int64)
    rows = []
    for rank in ranks:
        order = np.argsort(rank.step, kind="stable")
        places = order[np.searchsorted(rank.step[order], numbers)]
        rows.append(rank.columns[name][places])
    return np.array(rows).reshape(len(ranks), len(numbers))


def stragglers(ranks: Sequence[RankSteps], first: int, last: int) -> Observed.Stragglers:
    """Return how evenly the ranks worked in these steps, and which one the others waited for."""
    if len(ranks) < 2:
        return Observed.Stragglers(ranks=len(ranks))
    waits = matrix(ranks, "wait", first, last)
    before = matrix(ranks, "before", first, last)
    whole = ~np.isnan(waits).any(axis=0) & ~np.isnan(before).any(axis=0)
    waits, before = waits[:, whole], before[:, whole]
    steps = waits.shape[1]
    if steps == 0:
        return Observed.Stragglers(ranks=len(ranks))
    typical, typical_before = waits.mean(axis=1), before.mean(axis=1)
    even = Observed.Stragglers(
        ranks=len(ranks),
        steps=steps,
        wait_s=float(np.median(typical)),
        before_s=float(np.median(typical_before)),
    )
    slowest = int(np.argmin(typical))
    gain = np.median(np.delete(waits, slowest, axis=0), axis=0) - waits[slowest]
    error = gain.std(ddof=1) / np.sqrt(steps) if steps > 1 else np.inf
    certain = NormalDist().inv_cdf(1 - CHANCE / len(ranks)) * error
    lost = float(gain.mean())  # how much longer the others wait in a step
    total = float(np.nanmedian(matrix(ranks, "total", first, last)))
    if steps < LEAST_STEPS or lost < max(certain, LEAST_SHARE * total):
        return even
    return even.replace(
        slowest_rank=ranks[slowest].rank,
        slowest_node=ranks[slowest].node,
        slowest_before_s=float(typical_before[slowest]),
        lost_s_per_step=lost,
    )
