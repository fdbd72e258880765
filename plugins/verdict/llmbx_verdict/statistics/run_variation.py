"""How much the mean step time varies from run to run, for a comparison with one run on each side.

One run on each side contains no information about the variation between runs. It is learned from earlier repeats on the
same machine; without any, a prior is used: the variation of repeated runs of the same submission on the same system in
MLPerf Training v5.0 and v5.1. Of 203 groups of repeats with 1,871 runs, the relative standard deviation has the median
0.11 % and the 90th percentile 0.53 %: it differs from system to system. A scaled inverse chi-squared distribution of
the variances describes this, so that the deviation of one run of an unknown system is Student's t with few degrees of
freedom. `benchmarks/run_variation.py` fits both constants to the
table of runs and compares them with the observed differences: 95 % of the pairs of repeats differ by at most 1.03 %,
the constants below say 1.05 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from llmbx.api import Value

from .student_t import quantile

SCALE = 0.00072
"""Scale of the relative deviation of one run of a system without repeats."""

SAME = 1e-9
"""Below this relative standard deviation, the means of repeats count as equal."""

DOF = 1.1
"""Its degrees of freedom: how well the scale of one system is known from those of the others."""


class Spread(Value, frozen=True):
    """The relative deviation of the mean of one run: `scale` times Student's t with `dof` degrees of freedom.

    `runs` is the number of earlier runs that it was learned from, in `groups` of repeats; 0: published repeats only.
    """

    scale: float = SCALE
    dof: float = DOF
    runs: int = 0
    groups: int = 0

    def half_width(self, level: float, a: int = 1, b: int = 1) -> float:
        """Half of the interval of the difference between the means of `a` and `b` runs, in logarithms (0.01: 1 %)."""
        return self.scale * math.sqrt(1 / a + 1 / b) * quantile((1 + level) / 2, self.dof)


PUBLISHED = Spread()
"""The spread of a machine of which no repeats are known."""


def learned(groups: Iterable[Sequence[float]]) -> Spread:
    """The spread of a machine with these mean step times (> 0) of repeats: Student's t of their pooled variance.

    Groups of one run do not count. Without repeats, or if all are equal (coarsely rounded logs), it is `PUBLISHED`.
    """
    repeated = [[math.log(mean) for mean in group] for group in groups if len(group) > 1]
    runs = sum(map(len, repeated))
    dof = runs - len(repeated)
    squares = math.fsum((value - fmean(group)) ** 2 for group in repeated for value in group)
    if not dof or math.sqrt(squares / dof) < SAME:
        return PUBLISHED
    return Spread(scale=math.sqrt(squares / dof), dof=float(dof), runs=runs, groups=len(repeated))
