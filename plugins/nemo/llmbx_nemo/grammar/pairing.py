"""Which TFLOP/s figure belongs to which iteration, when two ranks print them in lines of their own.

Rank 0 prints `Step Time : 5.71s GPU utilization: 1181.5MODEL_TFLOP/s/GPU`, the last rank the iteration's line with
`elapsed time per iteration (ms): 5710.2`; either may come first, be late, or be lost. A figure belongs to an iteration
whose time agrees with its own. Where several agree, the product of figure and time decides, which is the same for
every step of a batch size and far sharper than two decimals of a second; then the neighbourhood.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from llmbx.measure.stats import median

NEAR = 4
"""Figures and iterations wait for each other over this many of their kind."""

ROUNDING_S = 0.006
SLACK = 0.003
"""Times agree within the rounding of `Step Time` (two decimals) and a fraction for the two ranks' clocks."""

SHARP = 20.0
"""From this many TFLOP/s on, one decimal is sharp enough to tell steps apart by figure x time."""


@dataclass(frozen=True)
class Figure:
    """One `Step Time` line: seconds (two decimals) and TFLOP/s per GPU, with its place in the log."""

    time_s: float
    tflops: float
    text: str
    place: int


@dataclass(frozen=True)
class Iteration:
    """One iteration line: its number, seconds, global batch size, and its place in the log."""

    number: int
    time_s: float
    batch: float
    place: int


Pair = tuple[Iteration, Figure]


class Pairing:
    """Pairs figures with iterations as they come."""

    def __init__(self) -> None:
        self._figures: list[Figure] = []
        self._iterations: list[Iteration] = []
        self._work: deque[float] = deque(maxlen=16)
        self._batch = 1.0
        self._place = 0

    def figure(self, time_s: float, text: str) -> None:
        """A `Step Time` line; it is paired when the next iteration comes, or at the end."""
        self._place += 1
        self._figures = [*self._figures[-NEAR:], Figure(time_s, float(text), text, self._place)]

    def iteration(self, number: int, time_s: float, batch: float | None) -> list[Pair]:
        """An iteration line; the pairs that are certain now."""
        self._place += 1
        self._batch = batch or self._batch
        self._iterations.append(Iteration(number, max(time_s, 1e-6), self._batch, self._place))
        return self._settle()

    def restart(self) -> None:
        """The iterations begin anew; a figure may already belong to the new ones."""
        self._iterations = []

    def close(self) -> list[Pair]:
        """The pairs among what still waits; nothing waits afterwards."""
        pairs = self._settle()
        self._figures, self._iterations = [], []
        return pairs

    def _settle(self) -> list[Pair]:
        _, _, pairs = self._align(0, 0)
        for iteration, figure in pairs:
            self._iterations.remove(iteration)
            self._figures.remove(figure)
            self._work.append(figure.tflops * iteration.time_s / iteration.batch)
        self._figures = self._figures[-NEAR:]
        self._iterations = self._iterations[-NEAR:]
        return list(pairs)

    def _align(self, i: int, f: int) -> tuple[int, float, tuple[Pair, ...]]:
        """The best pairing, in order, of the iterations from `i` and the figures from `f`: (pairs, -cost, which)."""
        if i == len(self._iterations) or f == len(self._figures):
            return 0, 0.0, ()
        best = max(self._align(i + 1, f), self._align(i, f + 1), key=lambda found: found[:2])
        iteration, figure = self._iterations[i], self._figures[f]
        if self._agree(iteration, figure):
            count, gain, pairs = self._align(i + 1, f + 1)
            taken = (count + 1, gain - self._cost(iteration, figure), ((iteration, figure), *pairs))
            best = max(best, taken, key=lambda found: found[:2])
        return best

    def _agree(self, iteration: Iteration, figure: Figure) -> bool:
        return abs(iteration.time_s - figure.time_s) <= ROUNDING_S + SLACK * iteration.time_s

    def _cost(self, iteration: Iteration, figure: Figure) -> float:
        """How unlikely the two belong together: 1 for a ten-thousandth of the time, or for two places apart."""
        work = median(list(self._work)) if figure.tflops >= SHARP else None
        if work is None:
            # The usual order is the figure before its iteration; the older one has waited longer.
            return 2.0 if figure.place > iteration.place else -0.1 * (iteration.place - figure.place)
        apart = abs(iteration.time_s - work * iteration.batch / figure.tflops) / iteration.time_s
        return apart * 1e4 + 0.5 * min(abs(iteration.place - figure.place - 1), 8)
