"""Assign TFLOP/s values to iterations that another rank prints in separate lines.

Rank 0 prints `Step Time : 5.71s GPU utilization: 1181.5MODEL_TFLOP/s/GPU`, the last rank prints the iteration's line
with `elapsed time per iteration (ms): 5710.2`; either may come first, be late, or be lost. A `Step Time` line is paired
with an iteration whose time agrees with its own. If several agree, the product of TFLOP/s and time decides: it is the
same for every step of a batch size, and much more precise than a time with two decimals. After that, the distance
between the lines decides.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from llmbx.api import median_of, read_real

NEAR = 4
"""Maximum number of unpaired `Step Time` lines, and of unpaired iterations, that are remembered."""

ROUNDING_S = 0.006
SLACK = 0.003
"""Times agree if they differ by at most ROUNDING_S seconds (`Step Time` has two decimals) plus the fraction SLACK
(the clocks of the two ranks differ)."""

SHARP = 20.0
"""From this value (in TFLOP/s) on, one decimal is precise enough to distinguish steps by the product TFLOP/s x time."""


@dataclass(frozen=True)
class StepTime:
    """One `Step Time` line: seconds (two decimals), TFLOP/s per GPU (also as text), and its position in the log."""

    time_s: float
    tflops: float
    text: str
    place: int


@dataclass(frozen=True)
class Iteration:
    """One iteration line: its number, seconds, global batch size, and its position in the log."""

    number: int
    time_s: float
    batch: float
    place: int


Pair = tuple[Iteration, StepTime]


class Pairing:
    """Pairs `Step Time` lines with iteration lines as they are read."""

    def __init__(self) -> None:
        self._step_times: list[StepTime] = []
        self._iterations: list[Iteration] = []
        self._work: deque[float] = deque(maxlen=16)
        self._batch = 1.0
        self._place = 0

    def add_step_time(self, time_s: float, text: str) -> None:
        """Add a `Step Time` line. It is paired when the next iteration is added, or by `close`."""
        self._place += 1
        self._step_times = [*self._step_times[-NEAR:], StepTime(time_s, read_real(text), text, self._place)]

    def add_iteration(self, number: int, time_s: float, batch: float | None) -> list[Pair]:
        """Add an iteration line. Returns the new pairs."""
        self._place += 1
        self._batch = batch or self._batch
        self._iterations.append(Iteration(number, max(time_s, 1e-6), self._batch, self._place))
        return self._pair()

    def restart(self) -> None:
        """Forget the unpaired iterations, but not the `Step Time` lines: these may belong to the new attempt."""
        self._iterations = []

    def close(self) -> list[Pair]:
        """Return the last pairs, and forget everything that is unpaired."""
        pairs = self._pair()
        self._step_times, self._iterations = [], []
        return pairs

    def _pair(self) -> list[Pair]:
        _, _, pairs = self._align(0, 0)
        for iteration, step_time in pairs:
            self._iterations.remove(iteration)
            self._step_times.remove(step_time)
            self._work.append(step_time.tflops * iteration.time_s / iteration.batch)
        self._step_times = self._step_times[-NEAR:]
        self._iterations = self._iterations[-NEAR:]
        return list(pairs)

    def _align(self, i: int, s: int) -> tuple[int, float, tuple[Pair, ...]]:
        """Return the best pairing, in order, of the iterations from `i` on and the `Step Time` lines from `s` on.

        The result is the number of pairs, their negated cost, and the pairs.
        """
        if i == len(self._iterations) or s == len(self._step_times):
            return 0, 0.0, ()
        best = max(self._align(i + 1, s), self._align(i, s + 1), key=lambda found: found[:2])
        iteration, step_time = self._iterations[i], self._step_times[s]
        if self._agree(iteration, step_time):
            count, gain, pairs = self._align(i + 1, s + 1)
            taken = (count + 1, gain - self._cost(iteration, step_time), ((iteration, step_time), *pairs))
            best = max(best, taken, key=lambda found: found[:2])
        return best

    def _agree(self, iteration: Iteration, step_time: StepTime) -> bool:
        return abs(iteration.time_s - step_time.time_s) <= ROUNDING_S + SLACK * iteration.time_s

    def _cost(self, iteration: Iteration, step_time: StepTime) -> float:
        """Return the cost of a pair: 1 per 1e-4 of relative time difference, and 1 per two lines of distance."""
        work = median_of(list(self._work)) if step_time.tflops >= SHARP else None
        if work is None:
            # Usually the `Step Time` line precedes its iteration; prefer the oldest one.
            return 2.0 if step_time.place > iteration.place else -0.1 * (iteration.place - step_time.place)
        apart = abs(iteration.time_s - work * iteration.batch / step_time.tflops) / iteration.time_s
        return apart * 1e4 + 0.5 * min(abs(iteration.place - step_time.place - 1), 8)
