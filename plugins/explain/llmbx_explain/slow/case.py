"""What rules look at: the evidence of the run and of the one it is compared with, and shared sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .budget import Part
from .clocks import Clocks, Floats
from .counters import Counters
from .evidence import Evidence

LEAST_SHARE = 0.015
"""What takes less of a step than this is not looked at."""
UNCERTAIN = 0.2
"""Share by which the time that a counter counts may be wrong."""
BURST = 1.25
"""A step that takes this much longer than the median is one in which a rank stood still."""
TYPICAL = 0.1
SMALL, VARIATION = 0.12, 1.5
"""Share of a step by which healthy ranks may differ at most, and of the variation of their steps."""
UNUSUAL = 4.0
"""Standard deviations of many peers by which a rank that is not healthy differs."""
FEW = 8
"""In a group of more ranks, the median of all is that of the peers."""
CERTAIN = 3.0
"""Standard errors by which a mean has to exceed zero."""


@dataclass(frozen=True)
class Case:
    """The run, the run that it is compared with, if any, and the parts that have a cause already."""

    run: Evidence
    clocks: Clocks
    counters: Counters
    healthy: Case | None = None
    parts: tuple[Part, ...] = ()

    def without(self, parts: Sequence[Part]) -> Case:
        """Return the case in which these parts have a cause."""
        return replace(self, parts=(*self.parts, *parts))

    @cached_property
    def step_s(self) -> float:
        """Mean step."""
        return self.clocks.step_s

    @property
    def least_s(self) -> float:
        """The least mean time of a step that is looked at."""
        return LEAST_SHARE * self.step_s

    def least_of(self, row: int) -> float:
        """The same for a rank: counters are not exact, so what has a cause may be more, or less."""
        return max(self.least_s, UNCERTAIN * float(self.taken[row].mean()))

    @cached_property
    def taken(self) -> Floats:
        """Time of each rank that has a cause already."""
        taken = [part.own for part in self.parts if part.own is not None]
        return np.asarray(sum(taken)) if taken else np.zeros(self.clocks.own.shape)

    @cached_property
    def work(self) -> Floats:
        """What each rank did besides loading data and communication, without what has a cause."""
        own = self.clocks.own - self.clocks.phases["data"]
        return np.asarray(np.maximum(own - self.taken, 0))

    @cached_property
    def ran(self) -> Floats:
        """Seconds of a processor that each rank used in a mean step."""
        return self._per_step("ran", 1e-6)

    @cached_property
    def delayed(self) -> Floats:
        """Seconds that each rank was ready, but did not run, in a mean step; of one thread."""
        delays, ran = self._per_step("run_delay", 1e-6), self.ran
        busy = np.maximum(self.clocks.own.mean(axis=1), 1e-9)
        return np.asarray(delays * np.minimum(1, busy / np.maximum(ran + delays, 1e-9)))

    @cached_property
    def asleep(self) -> Floats:
        """Seconds that each rank neither ran nor was ready, besides waiting for later ranks."""
        waited = self.clocks.phases["wait"].mean(axis=1) - self.clocks.shared.mean()
        delays = self._per_step("run_delay", 1e-6)
        return np.asarray(np.maximum(0, self.step_s - self.ran - delays - waited))

    def _per_step(self, measure: str, scale: float) -> Floats:
        return np.asarray(np.nan_to_num(self.counters.of_rank(measure)).mean(axis=1) * scale)

    def per_second(self, measure: str) -> Floats:
        """Return how fast a counter of each rank's process grew; 0 if it is unknown."""
        return self._per_step(measure, 1.0) / self.step_s

    @cached_property
    def stages(self) -> int:
        """Stages of the pipeline."""
        final = self.run.final.get("model.pipeline_model_parallel_size")
        return final if isinstance(final, int) else self.run.spec.parallelism.pp if self.run.spec else 1

    @cached_property
    def has_experts(self) -> bool:
        """Whether experts are shared out over the ranks."""
        final = self.run.final.get("model.expert_model_parallel_size")
        ranks = final if isinstance(final, int) else self.run.spec.parallelism.ep if self.run.spec else 1
        return (ranks or 1) > 1

    @cached_property
    def groups(self) -> list[tuple[int, int]]:
        """First and last row (exclusive) of ranks that do the same work: of each pipeline stage."""
        count = len(self.clocks.ranks)
        size = max(1, count // max(1, self.stages))
        return [(first, min(first + size, count)) for first in range(0, count, size)]

    def peers(self, row: int) -> list[int]:
        """Return the rows of the ranks that do the same work as this one."""
        first, last = next(group for group in self.groups if group[0] <= row < group[1])
        return [peer for peer in range(first, last) if peer != row]

    def share_in_state(self, row: int, letters: str) -> tuple[float, int]:
        """Return which share of a rank's samples had one of these states, and how many had."""
        states = self.counters.samples_of_rank(row, "state")
        number = int(np.isin(states, [ord(letter) for letter in letters]).sum())
        return number / max(1, len(states)), number

    @cached_property
    def excess(self) -> Floats:
        """By how much each rank works longer than its peers in each step; may be negative."""
        usual = np.empty_like(self.work)
        for first, last in self.groups:
            usual[first:last] = usual_of(self.work[first:last])
        least = -TYPICAL * np.median(self.work, axis=1, keepdims=True)
        return np.asarray(np.maximum(self.work - usual, least))  # a pause of a peer says little

    def longer(self, row: int) -> Floats:
        """Return what to remove from a rank so that it works as long as its peers, with its own noise.

        That is the same time of each step, and the whole of single steps that take much longer.
        """
        signed = self.excess[row]
        always = max(0.0, float(np.median(signed)))
        bursts = signed - always > (BURST - 1) * float(np.median(self.work[row]))
        return np.asarray(np.where(bursts, signed, always))

    @cached_property
    def usual_s(self) -> float:
        """Time of a step by which healthy ranks may differ, given how much their steps vary."""
        noise = float(np.median(self.work.std(axis=1)))
        return min(SMALL * self.step_s, self.least_s + VARIATION * noise)

    def is_unusual(self, row: int) -> bool:
        """Whether a rank differs from its peers by more than they do: of few peers, by much."""
        means, peers = self.excess.mean(axis=1), self.peers(row)
        if len(peers) < FEW:
            return bool(means[row] > self.usual_s)
        spread = float(np.median(np.abs(means[peers] - np.median(means[peers]))))
        return bool(means[row] > UNUSUAL * 1.4826 * spread)

    def alone(self, times: Floats) -> int | None:
        """Return the row whose mean is significant if no other one's is; None if all or none are."""
        means = times.mean(axis=1)
        rows = np.flatnonzero(means > max(self.least_s / 2, 0.35 * means.max()))
        return int(rows[0]) if len(rows) == 1 and len(means) > 1 else None


def is_certain(times: Floats) -> bool:
    """Whether the mean exceeds zero by more than chance."""
    if len(times) < 2:
        return False
    error = float(times.std(ddof=1)) / len(times) ** 0.5
    return bool(times.mean() > CERTAIN * error)


def moves_with(first: Floats, second: Floats) -> float:
    """Return the correlation of two series; 0 if one of them does not move."""
    if len(first) < 3 or not first.std() or not second.std():
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def usual_of(work: Floats) -> Floats:
    """Return what each rank of a group would take: its peers' median, or alone its own without pauses."""
    usual = np.median(work, axis=1, keepdims=True)
    if len(work) == 1:
        return np.where(work > BURST * usual, usual, work)
    if len(work) > FEW:
        return np.tile(np.median(work, axis=0), (len(work), 1))
    rows = range(len(work))
    return np.array([np.median(np.delete(work, row, axis=0), axis=0) for row in rows])
