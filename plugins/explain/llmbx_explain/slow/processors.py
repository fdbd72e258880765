"""Rules for processors: limits of a cgroup, other work on the cores, too many threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .budget import Part
from .case import Case
from .clocks import Floats
from .finding import Finding, Line

WAITED = "schedstat: ready, but did not run for"
DISTURBED = 0.25
"""A step of which this share was lost to other work on all ranks: less is usual on a machine that others use."""
SWITCH_S = 28e-6
"""What a switch between threads of one rank costs it: four threads on a core, by the run without (tuning.toml)."""
FULL = 0.9
"""Share of a step after which a rank has no more time to lose to its processors."""


def processors(case: Case) -> Iterator[Finding]:
    """Yield what the ranks lost to their cgroup's limit and to other work on their cores."""
    throttled = _throttled(case)
    limit = _usable(case, throttled)
    if limit.any():
        yield _finding(case, "cpu-limit", limit, "cpu.stat: throttled")
    waited = np.maximum(0, _delayed(case) - _counted_twice(case, throttled))
    crowded = np.array([_has_too_many_threads(case, row) for row in range(len(waited))])
    waited[crowded] = 0.0  # the rank's own threads wait for each other
    if crowded.all():
        yield from _crowded(case)
    common = _common(case, waited, crowded)
    special = _usable(case, waited - common)
    if case.alone(special) is None or special.mean(axis=1).max() < case.usual_s:
        special = np.zeros_like(waited)
    if special.any():
        yield _finding(case, "cpu-contention", special, WAITED)
    everywhere = _usable(case, np.where(special.any(axis=1, keepdims=True), common, waited))
    if everywhere.mean(axis=1).max() >= DISTURBED * case.step_s:
        yield _finding(case, "cpu-contention", everywhere, WAITED, is_everywhere=True)


def _crowded(case: Case) -> Iterator[Finding]:
    """What all ranks lose to threads that take turns on too few cores; of one rank, its peers tell."""
    switches = case.counters.of_rank("switches") + case.counters.of_rank("preempted")
    times = np.clip(np.nan_to_num(switches) * SWITCH_S, 0, FULL * case.clocks.own)
    row = int(times.mean(axis=1).argmax())
    if times[row].mean() < case.least_s:
        return
    (threads, cores), rank = case.run.threads[row], case.clocks.ranks[row]
    turns = f"{np.nanmean(switches[row]):.0f} switches of its threads a step"
    lines = [
        Line("configuration", f"step_clocks/rank-{rank}.bin: {threads} threads on {cores} cores"),
        Line("counter", f"telemetry: rank{rank}: {turns}, {times[row].mean():.3g} s at {1e6 * SWITCH_S:.0f} µs each"),
    ]
    yield Finding(id="threads", part=Part(own=times), lines=lines)


def _common(case: Case, waited: Floats, crowded: NDArray[np.bool_]) -> Floats:
    """The part of the delays that the rank with the smallest share of them has, too."""
    if (~crowded).sum() < 2:
        return waited
    undisturbed = np.maximum(case.clocks.own - waited, 0)
    shares = waited.mean(axis=1) / np.maximum(undisturbed.mean(axis=1), 1e-9)
    return np.minimum(waited, float(shares[~crowded].min()) * undisturbed)


def _throttled(case: Case) -> Floats:
    """Seconds of throttling in each step: by the rank's own cgroup, else by that of the node's sampler."""
    own = case.counters.of_rank("throttled")
    node = case.counters.of_node(["cgroup.throttled"])
    ranks_there = np.array([case.clocks.nodes.count(node_name) for node_name in case.clocks.nodes])
    return np.nan_to_num(np.where(np.isnan(own), node / ranks_there[:, None], own)) * 1e-6


def _delayed(case: Case) -> Floats:
    delays = np.nan_to_num(case.counters.of_rank("run_delay")) * 1e-6
    mean = delays.mean(axis=1)
    return delays * np.where(mean > 0, case.delayed / np.maximum(mean, 1e-12), 0.0)[:, None]


def _counted_twice(case: Case, throttled: Floats) -> Floats:
    """Some kernels count the time of throttling as delay, too: what is more than there was time."""
    mean = throttled.mean(axis=1)
    waited = case.clocks.phases["wait"].mean(axis=1) - case.clocks.shared.mean()
    more = np.clip(case.ran + case.delayed + mean + waited - case.step_s, 0, np.minimum(mean, case.delayed))
    share = np.where(mean > 0, more / np.maximum(mean, 1e-12), 0.0)
    return throttled * share[:, None]


def _usable(case: Case, times: Floats) -> Floats:
    """Leave out ranks with little of it, and what is in the time in which they waited anyway."""
    kept = np.clip(times, 0, FULL * case.clocks.own)
    on_gpu = np.array([device != "cpu" for device in case.clocks.devices])[:, None]
    kept = np.where(on_gpu, np.minimum(kept, case.clocks.slowness), kept)  # the GPU works on meanwhile
    return np.where(kept.mean(axis=1, keepdims=True) >= case.least_s, kept, 0.0)


def _has_too_many_threads(case: Case, row: int) -> bool:
    threads, cores = case.run.threads[row] if row < len(case.run.threads) else (None, None)
    return threads is not None and cores is not None and threads > cores


def _finding(case: Case, cause: str, times: Floats, what: str, is_everywhere: bool = False) -> Finding:
    row = None if is_everywhere else case.alone(times)
    chosen = int(times.mean(axis=1).argmax()) if row is None else row
    seconds, rank = float(times[chosen].mean()), case.clocks.ranks[chosen]
    lines = [Line("counter", f"telemetry: rank{rank}: {what} {seconds:.3g} s a step")]
    waits = case.clocks.phases["wait"].mean(axis=1)
    if row is not None:
        others = float(np.median(np.delete(waits, row)))
        lines.append(
            Line("clock", f"step_clocks: rank {rank} waits {waits[row]:.3g} s a step for others, they {others:.3g} s")
        )
    else:
        own = float(case.clocks.own.mean(axis=1)[chosen])
        lines.append(
            Line(
                "clock",
                f"step_clocks: rank {rank} is busy for {own:.3g} s a step, this is {100 * seconds / own:.0f} % of it",
            )
        )
    return Finding(id=cause, part=Part(own=times), lines=lines, row=row, is_everywhere=is_everywhere)
