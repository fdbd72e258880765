"""Synthetic runs for explain, whose nodes say so in their names: steps and samples whose causes are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmbx_explain.slow.clocks import Clocks, align
from llmbx_explain.slow.evidence import Evidence, of_samples
from llmbx_telemetry.samples import Samples
from llmbx_telemetry.steps import RankSteps

Floats = NDArray[np.float64]
STEPS = 200
NODE = "synthetic"
COMMUNICATION_S = 0.02


def even_work(ranks: int = 4, seconds: float = 0.3, seed: int = 1) -> Floats:
    """Return the work of each rank in each step, with some noise."""
    return np.asarray(seconds * (1 + 0.01 * np.random.default_rng(seed).standard_normal((ranks, STEPS))))


def clocks_of(work: Floats, data: Floats | float = 0.0, shared: Floats | float = COMMUNICATION_S, device: str = "cpu",
              uuid: str | None = None) -> Clocks:  # fmt: skip
    """Return the clocks of ranks that work so long in each step and then communicate."""
    loaded = np.broadcast_to(np.asarray(data, dtype=float), work.shape)
    own = work + loaded
    period = own.max(axis=0) + shared
    start = np.concatenate(([0.0], np.cumsum(period)))[:-1]
    ranks = []
    for rank in range(len(work)):
        wait = period - own[rank]
        unknown = np.full(STEPS, np.nan)
        columns = {"data": loaded[rank], "compute": work[rank], "before": own[rank], "wait": wait,
                   "communication": wait if device == "cpu" else unknown, "optimizer": np.zeros(STEPS),
                   "total": period}  # fmt: skip
        ranks.append(RankSteps(rank=rank, node=NODE, boot_id=NODE, device=device, wall=0.0, columns=columns,
                               gpu_uuid=None if uuid is None else f"{uuid}-{rank}", step=np.arange(STEPS),
                               start=start))  # fmt: skip
    clocks = align(ranks, 1, STEPS)
    assert clocks is not None
    return clocks


def run_of(clocks: Clocks, columns: Mapping[str, Floats | float] | None = None, facts: Mapping[str, Any] | None = None,
           **more: Any) -> Evidence:  # fmt: skip
    """Return a run. A counter in `columns` (an array) grows by so much in each step; a number is a level."""
    end = clocks.end(0)
    seconds = np.arange(0.0, end + 2.0)
    bounds = np.append(clocks.start[0], end)
    sampled: dict[str, Floats] = {}
    for name, value in (columns or {}).items():
        if isinstance(value, float):
            sampled[name] = np.full(len(seconds), value)
        else:
            total = np.concatenate(([0.0], np.cumsum(value)))
            sampled[name] = np.interp(seconds, bounds, total)
    samples = Samples(node=NODE, number=0, boot_id=NODE, monotonic=seconds, time=seconds, columns=sampled, units={},
                      facts=facts or {})  # fmt: skip
    counters = of_samples(clocks, [samples])
    return replace(Evidence(name="synthetic", clocks=clocks, counters=counters), **more)


def ran(clocks: Clocks, lost: Mapping[int, Floats | float] | None = None) -> dict[str, Floats | float]:
    """Return the processor time of each rank: all its work, but for what it lost in each step."""
    columns: dict[str, Floats | float] = {}
    work = clocks.phases["work"]
    for row in range(len(work)):
        less = (lost or {}).get(row, 0.0)
        columns[f"rank{row}.ran"] = (work[row] + COMMUNICATION_S - less) * 1e6
        columns[f"rank{row}.run_delay"] = np.zeros(work.shape[1])
        columns[f"rank{row}.state"] = 82.0
    return columns
