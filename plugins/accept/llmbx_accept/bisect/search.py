"""Find the slow nodes of a set by running parts of it. Pure: it asks for runs, and is told their step times.

A run is as slow as the slowest of its nodes. First the set is cut into eight parts, of which the fastest are healthy;
the others are judged by them. A small set is first cut into four, which suffices if most of them are equally fast. In a
slow part, halves are run: if the first half is healthy, the slow node is in the second, which is not run. What was left
beside a slow half is tried at the end, all together: a node that is a little slower hides behind a much slower one.

Fewer nodes are another job, with another step time. So all runs are as large as a part: healthy nodes fill them up.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from statistics import fmean

from llmbx.api import Value

from .decision import Judgement

PARTS, FEWER_PARTS, FEW_NODES = 8, 4, 64
"""Parts that are tried, and of fewer nodes first: of eight, one is healthy with up to seven slow nodes."""

SHARP = 8
"""The level of healthy nodes is known to an eighth of the difference that is looked for."""

MOST_CONTRADICTIONS = 3
"""Times that a part may be slow and none of its nodes, before it counts as healthy."""

AGAIN = "again: not sure yet"

Nodes = tuple[str, ...]


class Ask(Value, frozen=True):
    """A run that the search asks for: its nodes, those of them that are tried, and why. The others are healthy."""

    nodes: Nodes
    tried: Nodes
    why: str


class Outcome(Value, frozen=True):
    """The slow nodes with by how much each is slower (a fraction), and what was found out about the others.

    `undecided` are those that were not told apart before the runs were used up. `equal` is true if no part of the nodes
    differs from another: then either none is slow, or all parts have one.
    """

    slow: dict[str, float]
    healthy: Nodes
    undecided: Nodes
    equal: bool
    runs: int


Search = Generator[Ask, float, Outcome]
"""Asks for runs, and takes the step time of each, in seconds."""


def search(nodes: Sequence[str], judgement: Judgement, most_runs: int | None = None) -> Search:
    """Find the slow ones of `nodes`, of which there are at least two, in at most `most_runs` runs."""
    return (yield from _Search(tuple(nodes), judgement, most_runs or sys.maxsize).run())


class _Exhausted(Exception):
    """No further run is allowed."""


class _Search:
    """The state of a search.

    `level` has the step times of healthy nodes, `measured` those of each part, all in logarithms. `cleared` are the
    parts that count as healthy, `pending` those of which nothing is known yet.
    """

    def __init__(self, nodes: Nodes, judgement: Judgement, most_runs: int) -> None:
        self.nodes = nodes
        self.judgement = judgement
        self.most_runs = most_runs
        self.measured: dict[Nodes, list[float]] = {}
        self.contradictions: Counter[Nodes] = Counter()
        self.level: list[float] = []
        self.size = len(nodes)
        self.cleared: list[Nodes] = []
        self.pending: list[Nodes] = [nodes]
        self.slow: list[str] = []
        self.runs = 0

    def run(self) -> Search:
        """Ask until each node is known, or the runs are used up."""
        try:
            if not (yield from self._find_level()):
                return self._outcome(equal=True)
            while self.pending:
                yield from self._look(self.pending[0])
        except _Exhausted:
            pass
        return self._outcome(equal=False)

    def _find_level(self) -> Generator[Ask, float, bool]:
        """Find out how fast healthy nodes are; false if no part is faster than another."""
        count = min(PARTS if len(self.nodes) >= FEW_NODES else FEWER_PARTS, len(self.nodes))
        while True:
            parts = _parts(self.nodes, count)
            self.size = len(parts[0])
            for part in parts:
                yield from self._measure(part, f"1 of {count} parts")
            slower = yield from self._slower(parts)
            last = count == min(PARTS, len(self.nodes))
            if slower and (last or len(slower) < count / 2):
                yield from self._set_level(parts, slower)
                return True
            if last:
                return False
            count = min(2 * count, len(self.nodes))

    def _slower(self, parts: Sequence[Nodes]) -> Generator[Ask, float, list[Nodes]]:
        """The parts that are slow beside the faster half of them."""
        slower = []
        for part in sorted(parts, key=self._mean, reverse=True):
            while (is_slow := self.judgement.is_slow(self.measured[part], self._fast(parts, part))) is None:
                yield from self._measure(part, AGAIN)
            slower += [part] if is_slow else []
        return slower

    def _fast(self, parts: Sequence[Nodes], part: Nodes) -> list[float]:
        """The step times of the faster half of the parts, without those of `part`."""
        others = sorted((other for other in parts if other != part), key=self._mean)
        return [log for other in others[: max(1, len(parts) // 2)] for log in self.measured[other]]

    def _set_level(self, parts: Sequence[Nodes], slower: Sequence[Nodes]) -> Generator[Ask, float, None]:
        """Take the parts that are like the fastest one as healthy: that one alone was fast by chance, too."""
        self.cleared = [part for part in parts if part not in slower]
        least = math.ceil((SHARP * self.judgement.spread / self.judgement.difference) ** 2)
        while sum(len(self.measured[part]) for part in self.cleared) < least:
            fewest = min(self.cleared, key=lambda part: len(self.measured[part]))
            yield from self._measure(fewest, "again: how fast are healthy nodes?")
        self.level = [log for part in self.cleared for log in self.measured[part]]
        healthy = {node for part in self.cleared for node in part}
        self.pending = [tuple(node for node in part if node not in healthy) for part in slower]

    def _look(self, part: Nodes) -> Generator[Ask, float, None]:
        """Clear a part that waits, or find a slow node in it."""
        if not (yield from self._is_slow(part, "is a slow node among them?")):
            self.pending.remove(part)
            self.cleared.append(part)
            return
        rest = yield from self._locate(part)
        self.pending.remove(part)
        self.pending += [rest] if rest else []
        if not any(part in self.measured for part in self.pending):
            unknown = tuple(dict.fromkeys(node for part in self.pending for node in part))
            self.pending = [unknown[begin : begin + self.size] for begin in range(0, len(unknown), self.size)]

    def _locate(self, part: Nodes) -> Generator[Ask, float, Nodes]:
        """Find one slow node of a slow part; return the nodes of the part of which nothing is known yet."""
        unknown: Nodes
        whole, unknown, inferred = part, (), False
        while len(part) > 1:
            first, second = part[: len(part) // 2], part[len(part) // 2 :]
            if (yield from self._is_slow(first, "half of them")):
                unknown += second
                part, inferred = first, False
            else:
                self.cleared.append(first)
                part, inferred = second, True
        if inferred and not (yield from self._is_slow(part, "the last one left")):
            self.contradictions[whole] += 1
            if self.contradictions[whole] < MOST_CONTRADICTIONS:
                yield from self._measure(whole, "again: two runs contradict each other")
                return whole
            self.cleared.append(whole)
            return ()
        self.slow += part
        return unknown

    def _is_slow(self, part: Nodes, why: str) -> Generator[Ask, float, bool]:
        if part not in self.measured:
            yield from self._measure(part, why)
        while (slow := self.judgement.is_slow(self.measured[part], self.level)) is None:
            yield from self._measure(part, AGAIN)
        return slow

    def _measure(self, part: Nodes, why: str) -> Generator[Ask, float, None]:
        if self.runs >= self.most_runs:
            raise _Exhausted
        time = yield Ask(nodes=self._filled(part), tried=part, why=why)
        self.runs += 1
        self.measured.setdefault(part, []).append(math.log(time))

    def _filled(self, part: Nodes) -> Nodes:
        spare = dict.fromkeys(node for cleared in self.cleared for node in cleared if node not in part)
        return part + tuple(spare)[: self.size - len(part)]

    def _mean(self, part: Nodes) -> float:
        return fmean(self.measured[part])

    def _outcome(self, *, equal: bool) -> Outcome:
        slow = {node: math.expm1(self._mean((node,)) - fmean(self.level)) for node in self.slow}
        pending = {node for part in self.pending for node in part} - slow.keys()
        return Outcome(
            slow=slow,
            healthy=tuple(node for node in self.nodes if node not in slow and node not in pending),
            undecided=() if equal else tuple(node for node in self.nodes if node in pending),
            equal=equal,
            runs=self.runs,
        )


def _parts(nodes: Nodes, count: int) -> list[Nodes]:
    """Parts of one size. Neighbours share nodes if the number of nodes is not divisible by it."""
    size = math.ceil(len(nodes) / count)
    begins = [round(part * (len(nodes) - size) / (count - 1)) for part in range(count)]
    return [nodes[begin : begin + size] for begin in begins]
