"""Interval arithmetic, compared with sets of nanoseconds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx_profiling.analysis.intervals import Overlap, Union

Intervals = list[tuple[int, int]]
times = st.integers(-8, 50)
intervals = st.lists(
    st.tuples(st.integers(-5, 40), st.integers(1, 9)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=12
)


def union(found: Intervals) -> Union:
    return Union([start for start, _ in found], [end for _, end in found])


def points(found: Intervals) -> set[int]:
    return {time for start, end in found for time in range(start, end)}


@settings(deadline=None)
@given(intervals, times, times)
def test_a_union_covers_what_its_intervals_cover(found: Intervals, start: int, end: int) -> None:
    made, covered = union(found), points(found)
    assert points(list(zip(made.starts, made.ends, strict=True))) == covered
    assert made.within(start, end) == len(covered & set(range(start, end)))


@settings(deadline=None)
@given(intervals)
def test_segments_are_apart_and_ascend(found: Intervals) -> None:
    made = union(found)
    edges = [time for pair in zip(made.starts, made.ends, strict=True) for time in pair]
    assert edges == sorted(edges)
    assert all(later > earlier for earlier, later in zip(made.ends, made.starts[1:], strict=False))


@settings(deadline=None)
@given(intervals, intervals)
def test_many_at_once_is_one_by_one(found: Intervals, asked: Intervals) -> None:
    made = union(found)
    each = made.within_each([start for start, _ in asked], [end for _, end in asked])
    assert each == [len(points(found) & points([pair])) for pair in asked]


@settings(deadline=None)
@given(intervals, intervals, times, times)
def test_an_overlap_is_what_both_cover(one: Intervals, other: Intervals, start: int, end: int) -> None:
    overlap = Overlap(union(one), union(other))
    assert overlap.within(start, end) == len(points(one) & points(other) & set(range(start, end)))
    assert sum(overlap.each) == len(points(one) & points(other))


@settings(deadline=None)
@given(intervals, intervals)
def test_a_union_of_unions_covers_what_either_covers(one: Intervals, other: Intervals) -> None:
    made = Union.of([union(one), union(other)])
    assert points(list(zip(made.starts, made.ends, strict=True))) == points(one) | points(other)


@settings(deadline=None)
@given(intervals, times, times, st.integers(1, 4))
def test_the_longest_gaps_are_the_longest(found: Intervals, start: int, end: int, count: int) -> None:
    longest = union(found).longest_gaps(start, end, count)
    runs = open_runs(found, start, end)
    assert [b - a for a, b in longest] == sorted((b - a for a, b in runs), reverse=True)[:count]
    assert set(longest) <= set(runs)


def open_runs(found: Intervals, start: int, end: int) -> Intervals:
    """Return the maximal uncovered intervals of the window."""
    runs: list[list[int]] = []
    for time in sorted(set(range(start, end)) - points(found)):
        if runs and runs[-1][1] == time:
            runs[-1][1] = time + 1
        else:
            runs.append([time, time + 1])
    return [(a, b) for a, b in runs]
