"""What a measurement is worth: the interface of the plugin that judges it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from ..model import Check, Evidence, Reference, Stability, Step, Value


class ReferenceVerdict(Value, frozen=True):
    """Whether runs are slower than a published figure allows."""

    verdict: Literal["slower", "within", "inconclusive"]
    """`slower` is exit code 3 of `llmbx run`."""
    sentence: str
    """The verdict in one line, with the change and its interval."""


class Judge:
    """Judges what a run measured. A plugin registers one with the hook `register_judge`.

    Its methods are pure. Each has a default that gives no verdict; without a plugin, runs are recorded so.
    """

    plugin: str = ""
    """The name of the plugin that registered it; set by llmbx."""

    def checks(self) -> Sequence[Check]:
        """The checks of every run and log, in the order in which the first finding becomes the cause."""
        return ()

    def stability(
        self, policy: str, steps: Sequence[Step], measured: Sequence[Step], excluded: Collection[int] = ()
    ) -> Stability:
        """Whether the mean of the `measured` steps represents them: a verdict and its reason for `result.json`.

        `policy` is the window's ("35-44", "last", "auto"), by which they were chosen from `steps` without those
        numbered `excluded`. A benchmark whose verdict is not "stable" ends `llmbx run` with exit code 5.
        """
        return Stability()

    def outside_steps_s(self, evidence: Evidence) -> float | None:
        """Seconds between the first and the last step that are in no step; None if they are not known."""
        return None

    def interval(self, times: Sequence[float]) -> tuple[float, float] | None:
        """The 95 % interval of the mean of successive step times (in seconds, above 0); None if it is unknown."""
        return None

    def after_repeats(self, groups: Sequence[Sequence[float]]) -> Judge:
        """This judge with what earlier repeats on the machine tell of the variation from run to run.

        `groups` are the mean step times in seconds of earlier runs, those of each set-up together.
        """
        return self

    def against_reference(
        self, row: Reference, means: Sequence[float], times: Sequence[float], allowed: float
    ) -> ReferenceVerdict | None:
        """Compare repeats of a run with the published `row`, which has a step time; None without a verdict.

        `means` are their mean step times in seconds; `times` are the step times of a single run. `allowed` is the
        tolerated slowdown, a fraction.
        """
        return None


NO_JUDGE = Judge()
"""Gives no verdict."""
