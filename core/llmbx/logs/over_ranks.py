"""Combine the values that the files of several ranks have for one step into one value of the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..model import Measure, Step
from ..model.measure import OverRanks as How


class _Sofar:
    """The values of one measure of one step so far; `ranks` has the bits of the ranks that have delivered one."""

    __slots__ = ("high", "low", "ranks", "sum", "twice")

    def __init__(self) -> None:
        self.ranks, self.sum, self.twice = 0, 0.0, False
        self.low, self.high = float("inf"), float("-inf")

    def add(self, bit: int, value: float) -> None:
        self.twice |= bool(self.ranks & bit)
        self.ranks |= bit
        self.sum += value
        self.low, self.high = min(self.low, value), max(self.high, value)

    def value(self, how: How) -> float:
        if how == "sum":
            return self.sum
        if how == "mean":
            return self.sum / self.ranks.bit_count()
        return self.low if how == "min" else self.high


class OverRanks:
    """Keeps the values of measures with `over_ranks` until those of all ranks are known.

    Memory grows with the number of steps, by one bit for each rank. A step for which a rank has no value, or two, gets
    none.
    """

    MOST_RANKS = 1 << 16

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._how: dict[str, How] = {m.name: m.over_ranks for m in measures if m.over_ranks is not None}
        self._values: dict[tuple[int, int], dict[str, _Sofar]] = {}
        self._bits: dict[int, int] = {}
        self._expected = 0

    def expect(self, rank: int | None) -> None:
        """This rank delivers values; a step without its value has none."""
        if rank is not None and rank not in self._bits and len(self._bits) < self.MOST_RANKS:
            self._bits[rank] = 1 << len(self._bits)
            self._expected |= self._bits[rank]

    def split(self, step: Step, rank: int | None) -> Step:
        """The step without the values of this rank, which are kept. Without a rank a value is that of the job."""
        own = {name: value for name, value in step.measures.items() if name in self._how}
        if rank is None or not own:
            return step
        self.expect(rank)
        bit = self._bits.get(rank, self._expected)  # of one rank too many: none of its steps has a value
        so_far = self._values.setdefault((step.attempt, step.number), {})
        for name, value in own.items():
            so_far.setdefault(name, _Sofar()).add(bit, value)
        left = {name: value for name, value in step.measures.items() if name not in own}
        without: Step = step.replace(measures=left)
        return without

    def steps(self) -> Iterator[Step]:
        """The steps for which every rank has delivered a value, in order, with nothing but these values."""
        for (attempt, number), values in sorted(self._values.items()):
            whole = {n: v.value(self._how[n]) for n, v in values.items() if v.ranks == self._expected and not v.twice}
            if whole:
                yield Step(number=number, attempt=attempt, measures=whole)

    def problems(self) -> Iterator[str]:
        """One line for each measure with steps that have no value, although a rank delivered one."""
        for name in self._how:
            so_far = [values[name] for values in self._values.values() if name in values]
            without = sum(value.ranks != self._expected for value in so_far)
            twice = sum(value.twice for value in so_far)
            if without:
                yield f"measure {name}: {_steps(without)} without the value of a rank, and therefore without a value"
            if twice:
                yield f"measure {name}: {_steps(twice)} with two values of one rank, and therefore without a value"


def _steps(count: int) -> str:
    return "1 step is" if count == 1 else f"{count} steps are"
