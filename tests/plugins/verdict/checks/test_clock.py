"""The wall clock against the times that a log claims: every wrong time is found, or the check says it cannot know."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from llmbx.model import RunSpec, Step
from llmbx.model.evidence import Arrival, Evidence, NotPossible
from llmbx_verdict.checks.timing import longer_than_run, too_long, too_short

POLL_S = 0.2


def followed(real: Sequence[float], factor: float = 1.0, block: int = 1, late: int = 0, end_s: float = 0.0) -> Evidence:
    """Steps that took `real` seconds and claim `factor` times as much, read by a follower that looks each 0.2 s.

    `block` lines are written together; a line is written `late` steps after its step; the last ones at the end of the
    program, `end_s` seconds after the last step.
    """
    ends = [sum(real[: number + 1]) for number in range(len(real))]
    final = ends[-1] + end_s
    writes = [ends[number + late] if number + late < len(ends) else final for number in range(len(ends))]
    blocks = [writes[min(number - number % block + block, len(writes)) - 1] if number - number % block + block
              <= len(writes) else final for number in range(len(writes))]  # fmt: skip
    arrivals: list[Arrival] = []
    for number, at in enumerate(blocks):
        seen = (int(at / POLL_S) + 1) * POLL_S
        if arrivals and arrivals[-1].at == 1e9 + seen:
            arrivals.pop()
        arrivals.append(Arrival(number=number, at=1e9 + seen, width=POLL_S))
    steps = tuple(Step(number=number, time_s=factor * took) for number, took in enumerate(real))
    return Evidence(steps=steps, arrivals=tuple(arrivals))


def noisy(count: int, mean_s: float, seed: int, first_s: float = 0.0) -> list[float]:
    chosen = random.Random(seed)
    return [first_s + mean_s, *(mean_s * chosen.uniform(0.7, 1.5) for _ in range(count - 1))]


@pytest.mark.parametrize("mean_s", [0.01, 0.05, 0.2, 1.0, 8.0])
def test_times_that_are_true_are_never_doubted(mean_s: float) -> None:
    for count, block, late, seed, end_s in itertools.product((3, 10, 50), (1, 7), (0, 1), range(5), (0.0, 5.0, 60.0)):
        evidence = followed(noisy(count, mean_s, seed, first_s=3.0), block=block, late=late, end_s=end_s)
        for check in (too_long, too_short):
            found = check(evidence)
            assert found is None or isinstance(found, NotPossible), (count, block, late, seed, end_s, found)


@pytest.mark.parametrize(("count", "mean_s"), [(10, 0.3), (20, 0.2), (8, 0.6), (50, 0.1), (5, 2.0)])
def test_times_that_are_ten_times_too_long_are_found_in_a_window_of_seconds(count: int, mean_s: float) -> None:
    found = too_long(followed(noisy(count, mean_s, 1), factor=10))
    assert isinstance(found, str) and "passed between their lines" in found


@pytest.mark.parametrize(("count", "mean_s"), [(10, 0.5), (20, 0.3), (8, 1.0), (50, 0.2), (5, 2.0)])
def test_times_that_are_ten_times_too_short_are_found_in_a_window_of_seconds(count: int, mean_s: float) -> None:
    found = too_short(followed(noisy(count, mean_s, 1), factor=0.1))
    assert isinstance(found, str) and "passed between their lines" in found


@pytest.mark.parametrize("factor", [0.1, 10.0])
@pytest.mark.parametrize("mean_s", [0.001, 0.01, 0.05, 0.1, 0.5, 3.0])
def test_wrong_times_never_pass_in_silence(factor: float, mean_s: float) -> None:
    """Either they are found, or the check says that the steps are too few."""
    for count, block, seed in itertools.product((1, 2, 3, 4, 6, 10, 30, 100), (1, 5), range(3)):
        evidence = followed(noisy(count, mean_s, seed), factor=factor, block=block)
        assert (too_long if factor > 1 else too_short)(evidence) is not None, (count, block, seed)


def test_a_log_that_nobody_followed_is_clocked_by_its_own_stamps_of_whole_seconds() -> None:
    def log(factor: float) -> Evidence:
        steps = [Step(number=n, time_s=0.5 * factor, printed_at=float(int(100 + 0.5 * n))) for n in range(40)]
        return Evidence(steps=tuple(steps))

    assert too_long(log(1)) is None and too_short(log(1)) is None
    assert isinstance(too_long(log(2)), str) and isinstance(too_short(log(0.3)), str)


def test_the_stamps_of_a_log_are_not_used_if_the_clock_was_set_during_the_run() -> None:
    steps = tuple(Step(number=n, time_s=0.5, printed_at=100.0 + 0.5 * n + (600 if n > 20 else 0)) for n in range(40))
    evidence = Evidence(steps=steps, clock_set_s=600.0)
    found = too_short(evidence)
    assert isinstance(found, NotPossible) and "set by +600 s" in found.reason
    assert isinstance(too_short(evidence.replace(clock_set_s=0.0)), str)


def test_a_local_run_of_a_second_cannot_claim_two(make_spec: Callable[..., RunSpec]) -> None:
    """One machine recorded start and end; the times of a scheduler are whole seconds of two machines."""
    steps = tuple(Step(number=number, time_s=0.1) for number in range(20))
    local = Evidence(steps=steps, spec=make_spec(launcher="local"), lasted_s=1.0)
    found = longer_than_run(local)
    assert isinstance(found, str) and "the steps claim 2.0 s, but the run took 1.0 s" in found
    assert longer_than_run(local.replace(lasted_s=1.7)) is None
    assert longer_than_run(local.replace(spec=make_spec(launcher="slurm"))) is None
