"""Comparisons that must not end with "equivalent" or "faster" and exit code 0, one row each.

Each row changes side B (or both sides) of two otherwise equal runs: what was wrong, the verdict, the exit code, and a
part of the reason. Two equal runs and a faster one are in the table, too: the rules do not refuse everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from llmbx.errors import UsageError
from llmbx.model import Reference, RunSpec, Step
from llmbx.model.result import CheckOutcome, Loss
from llmbx.record.folder import Run, read_steps, write_steps

from ....run_factory import RunFactory, Toy, noise
from .test_compare import Compare, compare, read, verdict_of

__all__ = ["compare"]

Side = Callable[[RunFactory, RunSpec], Run]


def plain(mean: float = 1.0, seed: int = 2, **options: Any) -> Side:
    """A steady run with this mean; `options` are those of `RunFactory.put`."""
    return lambda factory, _: factory.put(noise(seed, mean), **options)


def shaped(change: Callable[[list[float]], None], mean: float = 1.0, **options: Any) -> Side:
    """A steady run whose step times were changed."""

    def side(factory: RunFactory, _: RunSpec) -> Run:
        times = noise(2, mean)
        change(times)
        return factory.put(times, **options)

    return side


def logged(**changes: Any) -> Side:
    """A steady run whose stored steps have other values."""

    def side(factory: RunFactory, _: RunSpec) -> Run:
        run = factory.put(noise(2, 1.0))
        steps: list[Step] = [step.replace(**changes) for step in read_steps(run.path)]
        write_steps(run.path, steps)
        return run

    return side


def model(**changes: Any) -> Side:
    return lambda factory, spec: factory.put(noise(2, 1.0), model=spec.model.replace(**changes))


def half_throttled(times: list[float]) -> None:
    times[28:] = [2 * time for time in times[28:]]


def one_step(times: list[float]) -> None:
    times[20] *= 10


def alternating(times: list[float]) -> None:
    times[:] = [time * (1.3 if number % 2 else 0.7) for number, time in enumerate(times)]


def drifting(times: list[float]) -> None:
    times[:] = [time * (1 + 0.1 * number / len(times)) for number, time in enumerate(times)]


def with_tail(times: list[float]) -> None:
    """Faster steps, and one in eight twice as long: the mean stays."""
    times[:] = [time * (2.0 if number % 8 == 3 else 0.857) for number, time in enumerate(times)]


def noisy(times: list[float]) -> None:
    times[:] = noise(5, 1.0, spread=0.25)


def other_hardware(check: str) -> Side:
    found = CheckOutcome(check=check, outcome="not comparable", text="the recipe is for H100, but H200 was seen")
    return plain(0.7, result={"checks": (found,)})


WRONG: dict[str, tuple[Side, tuple[str, ...], str, int, str]] = {
    "half of the window at twice the time": (shaped(half_throttled), (), "inconclusive", 5, "unstable"),
    "one step ten times as long": (shaped(one_step), (), "inconclusive", 5, "outlier"),
    "a step ten times as long, and others that hide it": (
        shaped(one_step, mean=0.79), (), "inconclusive", 5, "outlier"),
    "two alternating levels with the same mean": (shaped(alternating), (), "inconclusive", 5, "unstable"),
    "a drift of 10 %": (shaped(drifting), (), "inconclusive", 5, "unstable"),
    "a tail that the mean hides": (shaped(with_tail), (), "inconclusive", 5, "B: "),
    "noise larger than the difference": (shaped(noisy), (), "inconclusive", 5, "interval"),
    "a batch of 1, faster": (plain(0.1, global_batch_size=1), (), "not comparable", 5, "the global batch size differs"),
    "a batch of 1 in the log only": (logged(global_batch_size=1), (), "not comparable", 5,
                                     "states a global batch size of 1, but 64 was asked for"),
    "half of the sequence": (model(sequence_length=64), (), "not comparable", 5, "differ in sequence_length"),
    "fewer layers": (model(layers=2), (), "not comparable", 5, "the models differ in layers"),
    "a smaller vocabulary": (model(vocab_size=8), (), "not comparable", 5, "the models differ in vocab_size"),
    "another dtype": (plain(0.6, dtype="fp8"), (), "not comparable", 5, "the dtype differs (bf16 and fp8)"),
    "more ranks": (plain(0.5, gpus=16), (), "not comparable", 5, "the number of GPUs differs (8 and 16)"),
    "another GPU type": (plain(0.5, gpu_type="gb200"), (), "not comparable", 5, "the GPU type differs"),
    "another workload": (plain(0.5, workload="circle"), (), "not comparable", 5, "the workload differs"),
    "a mini": (plain(0.1, size="mini", mini=True), (), "not comparable", 5, "the size differs (1b and mini)"),
    "a recipe of another GPU on this one": (other_hardware("gpu-type"), (), "not comparable", 5, "check gpu-type"),
    "a run on a CPU": (other_hardware("backend"), (), "not comparable", 5, "check backend"),
    "no loss at all": (logged(loss=None), (), "not comparable", 5, "has no loss"),
    "a NaN loss": (logged(loss=float("nan")), (), "not comparable", 5, "loss"),
    "invalid data": (plain(valid=False), (), "not comparable", 5, "has no valid data (failed)"),
    "invalid data, forced": (plain(valid=False), ("--force",), "not comparable", 5, "has no valid data (failed)"),
    "another batch, forced": (plain(0.5, global_batch_size=32), ("--force",), "not comparable", 5, "batch size"),
    "a run that was profiled": (plain(result={"profiled": True}), (), "not comparable", 5, "was profiled"),
    "a run that was traced": (plain(result={"traced": True}), (), "not comparable", 5, "was traced"),
    "one measured step": (plain(0.8, window="last"), (), "inconclusive", 5, "step"),
    "a difference inside the variation between runs": (
        plain(1.006), ("--tolerance", "0.2%"), "inconclusive", 5, "no significant difference"),
    "equal, but the tolerance is finer than the variation between runs": (
        plain(1.0), ("--tolerance", "0.5%"), "inconclusive", 5, "would"),
    "a difference at the tolerance": (plain(1.05), (), "inconclusive", 5, "would decide"),
    "a slower run": (plain(1.08), (), "slower", 3, "beyond the 5 % tolerance"),
}  # fmt: skip

RIGHT: dict[str, tuple[Side, tuple[str, ...], str]] = {
    "the same run again": (plain(1.0), (), "equivalent"),
    "3 % slower, 5 % allowed": (plain(1.03), (), "equivalent"),
    "20 % faster": (plain(0.8), (), "faster"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_comparison_is_never_ok(
    run_factory: RunFactory, spec: RunSpec, compare: Compare, case: str
) -> None:  # fmt: skip
    side, options, verdict, code, reason = WRONG[case]
    a = run_factory.put(noise(1, 1.0))
    b = side(run_factory, spec)
    done = compare(a.record.run_id, b.record.run_id, *options)
    assert (verdict_of(done).partition(":")[0], done.exit_code) == (verdict, code)
    assert reason in verdict_of(done)
    assert read(compare(a.record.run_id, b.record.run_id, *options, "--format", "json"))["verdict"] == verdict


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_comparison_is_ok(run_factory: RunFactory, spec: RunSpec, compare: Compare, case: str) -> None:
    side, options, verdict = RIGHT[case]
    a = run_factory.put(noise(1, 1.0))
    b = side(run_factory, spec)
    done = compare(a.record.run_id, b.record.run_id, *options)
    assert (verdict_of(done).partition(":")[0], done.exit_code) == (verdict, 0)


def test_the_wrong_side_may_be_either(run_factory: RunFactory, spec: RunSpec, compare: Compare) -> None:
    """The rules hold for A as they do for B: nothing is equivalent to, or faster than, a wrong run."""
    good = run_factory.put(noise(1, 1.0))
    wrong = []
    for case, (side, options, verdict, _, _) in WRONG.items():
        if verdict != "slower":
            done = compare(side(run_factory, spec).record.run_id, good.record.run_id, *options)
            wrong += [case] if done.exit_code != 5 else []
    assert wrong == []


def test_what_the_window_does_not_show_is_said(run_factory: RunFactory, compare: Compare) -> None:
    slow = CheckOutcome(check="whole-run", outcome="warning", text="the steps 4 to 34 before it take 2 s")
    a = run_factory.put(noise(1, 1.0))
    b = run_factory.put(noise(2, 1.0), result={"checks": (slow,)})
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    assert "B: the steps 4 to 34 before it take 2 s (check whole-run)" in found["warnings"]


def test_repeats_that_scatter_give_no_verdict(run_factory: RunFactory, compare: Compare) -> None:
    """Two runs a side whose steps are steady, but which differ by 6 % from run to run."""
    sides = []
    for name, means in (("one", (0.97, 1.03)), ("two", (1.0, 1.06))):
        runs = [run_factory.put(noise(seed, mean), record={"group": name}) for seed, mean in enumerate(means)]
        sides.append(runs[-1].record.run_id)
    done = compare(*sides)
    assert done.exit_code == 5 and "runs on each side" in verdict_of(done)


def test_equal_means_of_repeats_are_not_taken_as_exact(run_factory: RunFactory, compare: Compare) -> None:
    """A coarsely rounded log: all repeats have the same mean, which says nothing about their variation."""
    sides = []
    for name, mean in (("one", 1.0), ("two", 1.001)):
        runs = [run_factory.put([mean] * 50, record={"group": name}) for _ in range(2)]
        sides.append(runs[-1].record.run_id)
    found = read(compare(*sides, "--format", "json", "--tolerance", "0.05%"))
    assert found["verdict"] == "inconclusive"
    assert found["change"]["low"] < 0 < found["change"]["high"]


@pytest.mark.parametrize(
    ("seconds", "rounding", "mean", "verdict", "code"),
    [
        (0.3, 0.05, 0.3, "inconclusive", 5),  # printed as 0.3: 0.25 to 0.35
        (0.3, 0.05, 0.24, "inconclusive", 5),
        (0.3, 0.0005, 0.3, "equivalent", 0),  # printed as 0.300
        (0.3, 0.0005, 0.33, "slower", 3),
    ],
)
def test_a_rounded_reference_claims_no_more_than_it_prints(
    run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare, seconds: float, rounding: float, mean: float,
    verdict: str, code: int,
) -> None:  # fmt: skip
    printed = {"step_time_s": seconds, "step_time_rounding_s": rounding, "tokens_per_s": None, "mfu": None}
    toy.references = (row.replace(days_per_1t_tokens=None, **printed),)
    run_factory.put(noise(2, mean))
    done = compare("--reference")
    assert (verdict_of(done).partition(":")[0], done.exit_code) == (verdict, code)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"result": {"loss": Loss(first=None)}, "size": "mini", "mini": True}, "mini"),
        ({"valid": False}, "has no valid data"),
        ({"global_batch_size": 1}, "the global batch size differs"),
        ({"proxy": True}, "a proxy"),
    ],
)
def test_a_wrong_run_does_not_reach_a_reference(
    run_factory: RunFactory, toy: Toy, row: Reference, compare: Compare, changes: dict[str, Any], reason: str
) -> None:
    toy.references = (row,)
    run_factory.put(noise(2, 0.9), **changes)
    try:
        done = compare("--reference")
    except UsageError as error:
        assert reason in str(error) and error.exit_code == 2  # no row for it
    else:
        assert done.exit_code == 5 and reason in verdict_of(done)


@pytest.mark.parametrize("time_s", [-1e300, 0.0])
def test_steps_whose_times_cannot_have_the_mean_of_the_result_are_refused(
    run_factory: RunFactory, spec: RunSpec, compare: Compare, time_s: float
) -> None:
    a, b = run_factory.put(noise(1, 1.0)), logged(time_s=time_s)(run_factory, spec)
    with pytest.raises(UsageError, match=rf"steps\.jsonl is damaged: steps took {re.escape(f'{time_s:g}')} s"):
        compare(a.record.run_id, b.record.run_id)
