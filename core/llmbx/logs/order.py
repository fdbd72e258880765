"""Notice a log whose steps are not printed in their order: reversed, shuffled, or put together from parts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

LogOrder = Literal["printed", "sorted", "mixed"]
"""How the steps of a log were ordered: `printed` in their order (restarts of the training included), `sorted` by their
numbers, or `mixed`: out of order, and the numbers cannot tell which step belongs to which training."""

CERTAIN = 2
"""Number of falls to unseen numbers that no restart explains. A single one may be a restart to a step whose line was
lost; then only numbers without a gap show that the log is one training's."""

LATE = 0.1
"""Share of the steps that must be late inside one attempt: a process that lags behind prints lost lines of others."""


class Order:
    """Collects the evidence. A restart falls back to a number that was printed before; a log out of order does not."""

    def __init__(self) -> None:
        self._before: set[int] = set()
        self._highest: int | None = None
        self._falls = self._falls_at_start = self._late = 0
        self._repeated = False
        self._begun: Literal["by number", "by line"] | None = None

    def begin(self, numbers: Iterable[int], by_number: bool) -> None:
        """A new attempt begins after one with these step numbers, either because the number of a step fell
        (`by_number`), or with a line that a training prints only when it starts.
        """
        self._before.update(numbers)
        self._begun = "by number" if by_number else "by line"

    def step(self, number: int) -> None:
        """The first line of this step in its attempt was read."""
        if number in self._before:
            self._repeated = True
        elif self._highest is not None and number < self._highest - 1:
            self._late += self._begun is None
            self._falls += self._begun == "by number"
            self._falls_at_start += self._begun == "by line"
        self._highest = number if self._begun or self._highest is None else max(self._highest, number)
        self._begun = None

    def forget(self, highest: int) -> None:
        """The last step's number was damaged; `highest` is the one before it."""
        self._highest = highest

    def decide(self, numbers: Iterable[int]) -> LogOrder:
        """The order of the log, if the last attempt has these numbers.

        A training that starts again from its first step falls to unseen numbers, too, if it was resumed before. But its
        numbers then repeat, or leave a gap: without either the log has one training's parts in the wrong order.
        """
        if not self._falls + self._falls_at_start + self._late:
            return "printed"
        every = sorted(self._before.union(numbers))
        distances = {after - before for before, after in pairwise(every)}
        parts = self._falls + self._falls_at_start
        if parts and len(distances) == 1 and not self._repeated:
            return "sorted"
        if self._falls < CERTAIN and self._late < max(CERTAIN, LATE * len(every)):
            return "printed"
        return "mixed" if self._repeated else "sorted"
