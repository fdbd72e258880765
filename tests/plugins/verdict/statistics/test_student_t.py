"""Student's t compared with printed tables, and consistency of its functions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx_verdict.statistics import student_t

# Upper critical values as printed in the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
TABLE = {
    1: (1.376, 3.078, 6.314, 12.706, 31.821, 63.657),
    2: (1.061, 1.886, 2.920, 4.303, 6.965, 9.925),
    3: (0.978, 1.638, 2.353, 3.182, 4.541, 5.841),
    5: (0.920, 1.476, 2.015, 2.571, 3.365, 4.032),
    9: (0.883, 1.383, 1.833, 2.262, 2.821, 3.250),
    15: (0.866, 1.341, 1.753, 2.131, 2.602, 2.947),
    30: (0.854, 1.310, 1.697, 2.042, 2.457, 2.750),
    100: (0.845, 1.290, 1.660, 1.984, 2.364, 2.626),
}
PROBABILITIES = (0.80, 0.90, 0.95, 0.975, 0.99, 0.995)

dofs = st.floats(min_value=1, max_value=1e5)


@pytest.mark.parametrize("dof", TABLE)
def test_quantiles_are_those_of_the_printed_table(dof: int) -> None:
    ours = [student_t.quantile(p, dof) for p in PROBABILITIES]
    # Tables print 0.80 as 0.800 only from some editions on; three digits after the point are the table's.
    assert ours == pytest.approx(TABLE[dof], abs=6e-4)


def test_one_and_two_degrees_of_freedom_have_closed_forms() -> None:
    for x in (-40.0, -1.0, 0.0, 0.3, 2.0, 500.0):
        assert student_t.cdf(x, 1) == pytest.approx(0.5 + math.atan(x) / math.pi, rel=1e-10)
        assert student_t.cdf(x, 2) == pytest.approx(0.5 + x / (2 * math.sqrt(2 + x * x)), rel=1e-10)


@given(probability=st.floats(min_value=1e-6, max_value=1 - 1e-6), dof=dofs)
def test_the_quantile_inverts_the_distribution_function(probability: float, dof: float) -> None:
    assert student_t.cdf(student_t.quantile(probability, dof), dof) == pytest.approx(probability, rel=1e-8, abs=1e-12)


@given(x=st.floats(min_value=-50, max_value=50), dof=dofs)
def test_it_is_symmetric(x: float, dof: float) -> None:
    assert student_t.cdf(x, dof) + student_t.cdf(-x, dof) == pytest.approx(1, abs=1e-12)


def test_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    assert student_t.quantile(0.975, 1e6) == pytest.approx(1.959964, abs=1e-5)


@pytest.mark.parametrize(("probability", "dof"), [(0.0, 3), (1.0, 3), (0.5, 0), (0.9, -1)])
def test_what_has_no_quantile_is_an_error(probability: float, dof: float) -> None:
    with pytest.raises(ValueError, match="no t quantile"):
        student_t.quantile(probability, dof)
