"""Judge the runs of one command against the published figure for exactly their work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..config.install import Install
from ..measure import intervals
from ..model import Reference, Result, RunSpec, Value, Workload


class AgainstPublished(Value, frozen=True):
    """The change of the step time from the published row, and the slowdown that is allowed (both are fractions)."""

    row: Reference
    change: intervals.Change
    allowed: float

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
        how = f"{100 * change.fraction:+.1f} % step time ({100 * change.level:g} % interval {low} to {high})"
        if self.verdict == "slower":
            return f"slower than published: {how}, more than the {allowed} that are allowed"
        if self.verdict == "within":
            return f"not slower than published by more than {allowed}: {how}"
        return f"no verdict against the published figure: {how} includes the {allowed} that are allowed; repeat the run"


def against_published(
    results: Sequence[Result], spec: RunSpec, workload: Workload, install: Install, allowed: float
) -> AgainstPublished | None:
    """Judge the stable, comparable results of repeats; None if there are none, or no published step time."""
    from ..catalog.matching import exact_row

    row = exact_row(spec, workload)
    stable = [r for r in results if r.comparable and r.step_time_s.mean and r.stability.verdict == "stable"]
    if row is None or row.step_time_s is None or not stable:
        return None
    means = [r.step_time_s.mean for r in stable if r.step_time_s.mean]
    times = _times(stable[0], install) if len(stable) == 1 else []
    return AgainstPublished(row=row, change=change_from(row, means, times), allowed=allowed)


def change_from(row: Reference, means: Sequence[float], times: Sequence[float]) -> intervals.Change:
    """The change from the row to runs with these means; `times` are the measured steps of a single run."""
    assert row.step_time_s is not None
    own = intervals.over_repeats(means) if len(means) > 1 else intervals.over_steps(times)
    return intervals.change_from_figure(
        row.step_time_s, row.step_time_rounding_s or 0.0, means, own or intervals.exact(means[0])
    )


def _times(result: Result, install: Install) -> list[float]:
    """The times of the result's measured steps in seconds."""
    from ..history import find_run
    from ..record.folder import read_steps

    steps = read_steps(find_run(install, result.run_id).path)
    return [s.time_s for s in steps if s.time_s is not None and not s.skipped and result.window.holds(s.number)]
