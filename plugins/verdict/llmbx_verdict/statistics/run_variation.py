"""How much the mean step time varies from run to run, before it has been measured with repeats.

One run on each side contains no information about the variation between runs, so a prior is used: the variation of
repeated runs of the same submission on the same system in MLPerf Training v5.0 and v5.1. Of 203 groups of repeats with
1,871 runs, the relative standard deviation has the median 0.11 % and the 90th percentile 0.53 %: it differs from system
to system. A scaled F distribution of the variances describes this; the deviation of one run of an unknown system is
then Student's t with few degrees of freedom. `benchmarks/run_variation.py` fits both constants to the table of runs and
compares them with the observed differences: 95 % of the pairs of repeats differ by at most 1.03 %, the constants below
say 1.05 %.
"""

from __future__ import annotations

import math

from .student_t import quantile

SCALE = 0.00072
"""Scale of the relative deviation of one run."""

DOF = 1.1
"""Degrees of freedom: how well the scale of one system is known from those of the others."""


def half_width(level: float, a: int = 1, b: int = 1) -> float:
    """Half of the interval of the difference between the means of `a` and `b` runs, in logarithms (0.01: about 1 %)."""
    return SCALE * math.sqrt(1 / a + 1 / b) * quantile((1 + level) / 2, DOF)
