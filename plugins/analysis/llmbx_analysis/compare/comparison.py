"""The result of a comparison. Side A is a run, a log, a baseline or a published row, B the run or log to compare."""

from __future__ import annotations

from typing import Literal

from llmbx.api import Scalar, Value
from llmbx_verdict.statistics import intervals

Better = Literal["lower", "higher"]

Verdict = Literal["equivalent", "faster", "slower", "inconclusive", "not comparable"]

EXIT_CODES: dict[Verdict, int] = {"equivalent": 0, "faster": 0, "slower": 3, "inconclusive": 5, "not comparable": 5}
"""The exit code of `compare` and of `run --against`."""


class Side(Value, frozen=True):
    """One side: its runs (newest last), its logs or the source of the published row, and its step time in seconds.

    The interval of `step_time_s` is over the runs if there are several, else over the measured steps of the run. It
    does not contain the variation from run to run of a single run. `unknown` has what decides whether the sides are
    comparable and is not known of a log: `workload`, `size`, `dtype`, `gpu_type`, `gpus`, `global_batch_size`,
    `sequence_length`, `model`, `instrumentation`.
    """

    kind: Literal["run", "repeats", "baseline", "reference", "log", "logs"]
    label: str
    runs: tuple[str, ...] = ()
    step_time_s: intervals.Interval | None = None
    windows: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Metric(Value, frozen=True):
    """One metric of both sides. `change_percent` is the change from A to B; `note` names conversions and caveats.

    `better` is None for a measure whose log format does not state it.
    """

    name: str
    unit: str
    better: Better | None
    a: float | None
    b: float | None
    change_percent: float | None
    note: str | None = None


class Difference(Value, frozen=True):
    """A difference between both sides that may explain a difference in speed. `weight` ranks the differences."""

    weight: int
    what: str
    a: Scalar
    b: Scalar
    note: str | None = None


class Needed(Value, frozen=True):
    """What would decide an inconclusive comparison if the difference stays as it is; None: not within reason.

    `runs` is the number of runs on each side (`--repeat`), `pairs` that of alternating pairs (`--interleave`), `steps`
    the number of measured steps of each run.
    """

    runs: int | None = None
    pairs: int | None = None
    steps: int | None = None


class Detectable(Value, frozen=True):
    """The smallest difference (a fraction) that the data would have shown in 8 of 10 comparisons like this.

    `runs` has the numbers of runs on each side, or of pairs, that would show other differences (`1%`, `2%`, and that of
    `--detect`); None: more than 100.
    """

    fraction: float
    runs: dict[str, int | None] = {}


class Comparison(Value, frozen=True):
    """The verdict on B with its reason, the metrics and the differences.

    `change` is the relative change of the step time (0.05: B takes 5 % longer) or of the metric named by `gate`.
    `tolerance` is a fraction. If the sides are not comparable, `not_comparable_because` has the reasons, and metrics
    and change are there only with --force. `detectable` is known where the change has an interval.
    """

    verdict: Verdict
    reason: str
    change: intervals.Change | None
    tolerance: float
    a: Side
    b: Side
    metrics: tuple[Metric, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()
    not_comparable_because: tuple[str, ...] = ()
    gate: str = "step_time"
    needed: Needed | None = None
    detectable: Detectable | None = None

    @property
    def exit_code(self) -> int:
        """The exit code for the verdict."""
        return EXIT_CODES[self.verdict]
