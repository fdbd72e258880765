"""What a comparison says. Side A is what is held against (a run, a baseline, a published row), side B the run."""

from __future__ import annotations

from typing import Literal

from llmbx.measure.intervals import Change, Interval
from llmbx.model import Scalar, Value

Verdict = Literal["faster", "same within noise", "slower"]


class Side(Value, frozen=True):
    """One side: its runs (newest last) or the published row's source, and its step time in seconds with interval.

    `step_time_s` is over the repeats where there are several runs, over the measured steps of the only one otherwise.
    """

    kind: Literal["run", "repeats", "baseline", "reference"]
    label: str
    runs: tuple[str, ...] = ()
    step_time_s: Interval | None = None
    windows: tuple[str, ...] = ()


class Metric(Value, frozen=True):
    """One figure of both sides; `change_percent` is B against A, `note` says what was converted or is doubted."""

    name: str
    unit: str
    better: Literal["lower", "higher"]
    a: float | None
    b: float | None
    change_percent: float | None
    note: str | None = None


class Difference(Value, frozen=True):
    """Something that is not the same on both sides and may explain a difference in speed; `weight` ranks it."""

    weight: int
    what: str
    a: Scalar
    b: Scalar
    note: str | None = None


class Comparison(Value, frozen=True):
    """The verdict on B with its reason, and what may explain it.

    `change` is that of the step time (0.05: B takes 5 % longer), or of the figure that `gate` names. `tolerance` is a
    fraction. `not_comparable_because` is empty unless the comparison was forced.
    """

    verdict: Verdict
    reason: str
    change: Change
    tolerance: float
    a: Side
    b: Side
    metrics: tuple[Metric, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()
    not_comparable_because: tuple[str, ...] = ()
    gate: str = "step_time"
