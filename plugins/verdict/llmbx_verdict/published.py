"""Judge the step times of repeats against a published figure: the interval decides, not the means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from llmbx.api import Reference, Value

from .statistics import intervals
from .statistics.run_variation import PUBLISHED, Spread


class AgainstPublished(Value, frozen=True):
    """The change of the step time from the published row, and the slowdown that is allowed (both are fractions).

    `spread` is how much single runs vary, for the change of one.
    """

    row: Reference
    change: intervals.Change
    allowed: float
    spread: Spread = PUBLISHED

    @property
    def verdict(self) -> Literal["slower", "within", "inconclusive"]:
        """The whole interval decides, as in `llmbx compare --reference`."""
        if self.change.low > self.allowed:
            return "slower"
        return "within" if self.change.high <= self.allowed else "inconclusive"

    def sentence(self) -> str:
        """The verdict in one line."""
        change, allowed = self.change, f"{100 * self.allowed:g} %"
        digits = 1 if change.high - change.low >= 0.002 else 2
        low, high = f"{100 * change.low:+.{digits}f}", f"{100 * change.high:+.{digits}f} %"
        how = f"{100 * change.fraction:+.1f} % step time ({100 * change.level:g} % interval {low} to {high}, "
        how += f"variation from run to run as {self._variation()})"
        if self.verdict == "slower":
            return f"slower than published: {how}, more than the {allowed} that are allowed"
        if self.verdict == "within":
            return f"not slower than published by more than {allowed}: {how}"
        return f"no verdict against the published figure: {how} includes the {allowed} that are allowed; repeat the run"

    def _variation(self) -> str:
        """What tells how much runs vary."""
        if self.change.over == "repeats":
            return "of these repeats"
        if self.spread.runs:
            return f"of {self.spread.runs} earlier repeats here, {100 * self.spread.scale:.2g} %"
        return "of published repeats"


def change_from(
    row: Reference, means: Sequence[float], times: Sequence[float], spread: Spread = PUBLISHED
) -> intervals.Change:
    """The change from the row to runs with these means; `times` are the measured steps of a single run."""
    assert row.step_time_s is not None
    own = intervals.over_repeats(means) if len(means) > 1 else intervals.over_steps(times)
    return intervals.change_from_figure(
        row.step_time_s, row.step_time_rounding_s or 0.0, means, own or intervals.exact(means[0]), spread
    )
