"""The judge: checks, stability of a window, intervals, and the comparison with a published figure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from llmbx.api import Check, Evidence, Judge, Reference, ReferenceVerdict, Stability, Step

from . import stability


class IntervalJudge(Judge):
    """Decides by intervals that account for correlated steps and for the variation between runs."""

    def __init__(self, groups: Sequence[Sequence[float]] = ()) -> None:
        self._groups = groups

    def checks(self) -> Sequence[Check]:
        """The checks of docs/checks.md."""
        from .checks import GROUPS

        return [check for checks in GROUPS.values() for check in checks]

    def stability(
        self, policy: str, steps: Sequence[Step], measured: Sequence[Step], excluded: Collection[int] = ()
    ) -> Stability:
        """See `stability.of_window`."""
        return stability.of_window(policy, steps, measured, excluded)

    def outside_steps_s(self, evidence: Evidence) -> float | None:
        """See `checks.outside.seconds_outside`."""
        from .checks import outside

        return outside.seconds_outside(evidence)

    def interval(self, times: Sequence[float]) -> tuple[float, float] | None:
        """See `intervals.over_steps`."""
        from .statistics import intervals

        interval = intervals.over_steps(times)
        return (interval.low, interval.high) if interval is not None else None

    def after_repeats(self, groups: Sequence[Sequence[float]]) -> Judge:
        """The judge with the spread of these repeats (`run_variation.learned`)."""
        return IntervalJudge(groups)

    def against_reference(
        self, row: Reference, means: Sequence[float], times: Sequence[float], allowed: float
    ) -> ReferenceVerdict | None:
        """See `published.AgainstPublished`."""
        from .published import AgainstPublished, change_from
        from .statistics.run_variation import learned

        spread = learned(self._groups)
        change = change_from(row, means, times, spread)
        comparison = AgainstPublished(row=row, change=change, allowed=allowed, spread=spread)
        return ReferenceVerdict(verdict=comparison.verdict, sentence=comparison.sentence())
