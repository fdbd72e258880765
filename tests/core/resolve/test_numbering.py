"""Whether a run reaches a window, depending on how its log numbers steps."""

from __future__ import annotations

import pytest

from llmbx.resolve.numbering import bounds, needs_first_number, reaches


@pytest.mark.parametrize(
    ("policy", "first", "right"),
    [
        ("11-44", 1, True), ("11-44", 0, False), ("11-44", None, True),
        ("11-43", 0, True), ("0-0", 0, True), ("0-0", 1, False), ("0-0", None, True),
        ("45-45", 1, False), ("45-45", None, False), ("auto", 0, True), ("last", 0, True),
    ],
)  # fmt: skip
def test_44_steps_end_at_43_where_numbers_begin_at_0(policy: str, first: int | None, right: bool) -> None:
    assert reaches(policy, 44, first) is right
    assert needs_first_number(policy, 44) is (policy in ("11-44", "0-0"))
    assert bounds(44, 0) == (0, 43) and bounds(44, 1) == (1, 44)
