"""`compare --measure`: a verdict about a measure, with its own direction, and never without both sides."""

from __future__ import annotations

import pytest

from llmbx.errors import UsageError
from llmbx.model import Measure
from llmbx_analysis.compare.judgement import rate_values

from ....run_factory import RunFactory, noise
from .test_compare import Compare, compare, read, verdict_of

__all__ = ["compare"]

IMAGES = Measure(name="images", unit="images", kind="count", better="higher")
MEMORY = Measure(name="memory", unit="GB", kind="level", better="lower")
DEPTH = Measure(name="depth", unit="items", kind="level")


def ids(run_factory: RunFactory, *runs: tuple[Measure, float], step_s: float = 1.0) -> list[str]:
    """Stored runs with the same step time and this mean of a measure."""
    return [
        run_factory.put(noise(7 + n, step_s), measures=((measure, noise(20 + n, mean)),)).record.run_id
        for n, (measure, mean) in enumerate(runs)
    ]


@pytest.mark.parametrize(
    ("measure", "mean", "verdict", "code"),
    [
        (IMAGES, 90.0, "slower", 3),
        (IMAGES, 112.0, "faster", 0),
        (IMAGES, 100.5, "equivalent", 0),
        (MEMORY, 112.0, "slower", 3),
        (MEMORY, 90.0, "faster", 0),
        (DEPTH, 100.5, "equivalent", 0),
        (DEPTH, 120.0, "inconclusive", 5),
        (DEPTH, 80.0, "inconclusive", 5),
    ],
)
def test_the_direction_of_the_measure_decides(
    run_factory: RunFactory, compare: Compare, measure: Measure, mean: float, verdict: str, code: int
) -> None:
    a, b = ids(run_factory, (measure, 100.0), (measure, mean))
    done = compare(a, b, "--measure", measure.name, "--format", "json")
    found = read(done)
    assert (found["verdict"], done.exit_code, found["gate"]) == (verdict, code, measure.name), found["reason"]
    assert found["change"]["low"] < mean / 100 - 1 < found["change"]["high"]
    assert found["change"]["prior"] > 0, "one run on each side: the variation from run to run is not measured"
    assert ("which direction is better" in found["reason"]) == (verdict == "inconclusive")
    assert found["metrics"][0]["name"].startswith(f"measures.{measure.name}.")


def test_a_count_is_compared_by_its_rate(run_factory: RunFactory, compare: Compare) -> None:
    """The same images in a step that takes 10 % longer."""
    (a,), (b,) = (ids(run_factory, (IMAGES, 100.0), step_s=time) for time in (1.0, 1.1))
    done = compare(a, b, "--measure", "images")
    assert done.exit_code == 3
    assert verdict_of(done).startswith("slower: images per second is lower by 9.")
    row = next(
        m for m in read(compare(a, b, "--format", "json"))["metrics"] if m["name"] == "measures.images.per_second"
    )
    assert row["unit"] == "images/s" and row["change_percent"] == pytest.approx(100 * (1 / 1.1 - 1), abs=0.5)
    assert "measures.images.per_second [images/s]" in done.stdout


def test_steps_of_varying_length_have_a_constant_rate(run_factory: RunFactory, compare: Compare) -> None:
    """Steps that take longer because they have more tokens: the rate is exact, the step times are noise."""
    tokens = Measure(name="tokens", unit="tokens", kind="count", better="higher")
    sides = [noise(seed, 1.0, spread=0.01) for seed in (1, 2)]
    a, b = (
        run_factory.put(times, measures=((tokens, [500 * rate * time for time in times]),)).record.run_id
        for times, rate in zip(sides, (1.0, 1.03), strict=True)
    )
    found = read(compare(a, b, "--measure", "tokens", "--tolerance", "1%", "--format", "json"))
    assert found["change"]["fraction"] == pytest.approx(0.03, abs=1e-6)
    assert found["verdict"] == "faster"


def test_repeats_are_compared_by_their_means(run_factory: RunFactory, compare: Compare) -> None:
    sides = [[run_factory.put(noise(n, 1.0), record={"group": name}, measures=((MEMORY, noise(n, mean)),))
              for n in (1, 2, 3)] for name, mean in (("a", 50.0), ("b", 60.0))]  # fmt: skip
    names = [side[-1].record.run_id for side in sides]
    found = read(compare(*names, "--measure", "memory", "--format", "json"))
    assert (found["verdict"], found["change"]["over"], found["change"]["prior"]) == ("slower", "repeats", 0.0)


def test_a_side_without_the_measure_is_never_equivalent(run_factory: RunFactory, compare: Compare) -> None:
    with_it, other = ids(run_factory, (IMAGES, 100.0), (MEMORY, 100.0))
    empty = run_factory.put(noise(1, 1.0), measures=((IMAGES, ()),)).record.run_id
    for a, b, said in (
        (with_it, other, f"{other} has no measure images"),
        (other, with_it, f"{other} has no measure images"),
        (with_it, empty, f"no measured step of {empty} has the measure images"),
        (empty, with_it, f"no measured step of {empty} has the measure images"),
    ):
        for options in ((), ("--force",)):
            done = compare(a, b, "--measure", "images", *options)
            assert done.exit_code == 5 and f"not comparable: {said}" in verdict_of(done)
    with pytest.raises(UsageError, match=r"--measure imges: no run has such a measure \(did you mean 'images'\?\)"):
        compare(with_it, other, "--measure", "imges")


def test_measures_of_another_unit_are_not_comparable(run_factory: RunFactory, compare: Compare) -> None:
    a, b = ids(run_factory, (MEMORY, 80.0), (MEMORY.replace(unit="GiB"), 80.0))
    done = compare(a, b, "--measure", "memory", "--format", "json")
    found = read(done)
    assert done.exit_code == 5 and "not the same: a level in GB and a level in GiB" in found["reason"]
    assert read(compare(a, b, "--format", "json"))["verdict"] == "equivalent", "by step time they are"


def test_a_measure_of_0_in_a_has_no_relative_change_and_one_in_b_has(run_factory: RunFactory, compare: Compare) -> None:
    zero = run_factory.put(noise(1, 1.0), measures=((MEMORY, [0.0] * 50),)).record.run_id
    (other,) = ids(run_factory, (MEMORY, 3.0))
    done = compare(zero, other, "--measure", "memory")
    assert done.exit_code == 5 and "is 0 in A, so there is no relative change" in verdict_of(done)
    assert compare(other, zero, "--measure", "memory").exit_code == 0


def test_an_unstable_window_is_inconclusive(run_factory: RunFactory, compare: Compare) -> None:
    drifting = [1.0 + 0.004 * n for n in range(50)]
    a = run_factory.put(drifting, measures=((IMAGES, [100.0] * 50),)).record.run_id
    (b,) = ids(run_factory, (IMAGES, 100.0))
    done = compare(a, b, "--measure", "images")
    assert done.exit_code == 5 and verdict_of(done).startswith("inconclusive: A: ")


def test_it_replaces_no_other_question(run_factory: RunFactory, compare: Compare) -> None:
    a, b = ids(run_factory, (IMAGES, 100.0), (IMAGES, 100.0))
    with pytest.raises(UsageError, match="--measure cannot be combined with --gate"):
        compare(a, b, "--measure", "images", "--gate", "exposed_communication")
    with pytest.raises(UsageError, match="only step times are published"):
        compare(a, "--measure", "images", "--reference")


def test_the_interval_is_around_the_ratio_of_the_sums(run_factory: RunFactory, compare: Compare) -> None:
    """The mean of the rates of noisy steps would be 1 % higher than the rate."""
    a, b = (
        run_factory.put(noise(seed, 1.0, spread=0.1), measures=((IMAGES, [100.0] * 50),)).record.run_id
        for seed in (1, 2)
    )
    found = read(compare(a, b, "--measure", "images", "--format", "json"))
    first = found["metrics"][0]
    assert found["change"]["fraction"] == pytest.approx(first["b"] / first["a"] - 1, rel=1e-9)


def test_the_values_behind_a_rate_have_its_mean() -> None:
    values = rate_values([(1.0, 10.0), (3.0, 90.0), (2.0, 20.0)])
    assert sum(values) / 3 == pytest.approx(120 / 6)
    assert rate_values([(2.0, 20.0), (4.0, 40.0)]) == [10.0, 10.0], "a constant rate has no spread"
    assert rate_values([]) == []
