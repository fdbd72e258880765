"""The bias of `--window auto` and of other rules that drop a warm-up: python benchmarks/window.py [SERIES].

Each series is a run: correlated noise (a first-order autoregression with correlation phi), in some cases 3 % of steps
that take 1.5 to 3 times as long at random, which belong to the run, and a warm-up, which does not: a first step of 5
to 50 times the time, and then nothing, an exponential decay, or a few slow steps. The bias of a rule is the mean of
what it measures less the mean of the same steps without the warm-up. Rows are lengths and warm-ups; a cell has the bias
of the noise with the largest one, in percent of the steady step time, with twice its standard error. A rule should stay
within 0.5.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from statistics import fmean, median, stdev

from llmbx.measure.window import choose
from llmbx.model import Step

COUNTS = (10, 15, 20, 50, 100)

NOISES = (
    (0.0, 0.002, 0.0),
    (0.0, 0.01, 0.0),
    (0.3, 0.005, 0.03),
    (0.6, 0.02, 0.03),
    (0.9, 0.02, 0.0),
    (0.0, 0.05, 0.0),
)
"""Correlation phi, standard deviation of the steps, and share of random slow steps."""

DECAYS = {"5 % decay": 0.05, "20 % decay": 0.2, "100 % decay": 1.0}
"""What the second step has too much. A third of the run later 0.5 % of it are left."""

WARM_UPS = ("none", "first step", *DECAYS, "slow steps")

LIMIT = 0.005


def noise(source: random.Random, count: int, phi: float) -> list[float]:
    """A stationary autoregression with mean 0 and standard deviation 1."""
    value, values = source.gauss(0, 1), []
    for _ in range(count):
        values.append(value)
        value = phi * value + math.sqrt(1 - phi * phi) * source.gauss(0, 1)
    return values


def steady(source: random.Random, count: int, phi: float, spread: float, slow: float) -> list[float]:
    """Step times around 1 s of a run without warm-up."""
    late = [source.uniform(0.5, 2) if source.random() < slow else 0.0 for _ in range(count)]
    return [1 + spread * value + more for value, more in zip(noise(source, count, phi), late, strict=True)]


def warm_up(source: random.Random, count: int, kind: str) -> list[float]:
    """What the warm-up adds to each step, in seconds; it has ended after a third of the run."""
    if kind == "none":
        return [0.0] * count
    first = source.uniform(4, 49)
    if kind == "slow steps":
        steps = source.randint(1, max(1, count // 4))
        return [first, *(source.uniform(0.1, 2) for _ in range(steps)), *[0.0] * (count - 1 - steps)]
    size = DECAYS.get(kind, 0.0)
    tau = count / 3 / math.log(size / 0.005) if size else 1.0
    return [first, *(size * math.exp(-k / tau) for k in range(count - 1))]


def own(times: Sequence[float]) -> int:
    """What llmbx drops."""
    return len(times) - len(choose([Step(number=k, time_s=time) for k, time in enumerate(times)], "auto")[1])


def first(times: Sequence[float]) -> int:
    """The first step alone."""
    return 1


def near(times: Sequence[float]) -> int:
    """The first step, and all until a step and its running median are near the later median; llmbx until this rule."""
    rest = times[1:]
    half = len(rest) // 2
    center = median(rest[half:])
    spread = 3 * 1.4826 * median([abs(time - center) for time in rest[half:]])
    limit = min(max(0.05 * center, spread), 0.5 * center)
    fits = (k for k in range(half) if max(abs(rest[k] - center), abs(median(rest[k : k + 3]) - center)) <= limit)
    return 1 + next(fits, half)


def mser(times: Sequence[float]) -> int:
    """The first step, and the number that makes the standard error of the rest smallest (White, MSER)."""
    rest = times[1:]
    error = [
        sum((t - fmean(rest[k:])) ** 2 for t in rest[k:]) / (len(rest) - k) ** 2 for k in range(len(rest) // 2 + 1)
    ]
    return 1 + min(range(len(error)), key=error.__getitem__)


def geweke(times: Sequence[float]) -> int:
    """The first step, and tenths until the mean of the first quarter agrees with that of the second half (Geweke)."""
    rest = times[1:]
    later = rest[len(rest) // 2 :]
    for k in range(0, len(rest) // 2, max(1, len(rest) // 10)):
        early = rest[k : k + max(2, len(rest) // 4)]
        error = math.hypot(stdev(early) / math.sqrt(len(early)), stdev(later) / math.sqrt(len(later)))
        if abs(fmean(early) - fmean(later)) <= 1.96 * error:
            return 1 + k
    return 1 + len(rest) // 2


RULES: dict[str, Callable[[Sequence[float]], int]] = {
    "first step": first,
    "within 5 %": near,
    "MSER": mser,
    "Geweke": geweke,
    "llmbx": own,
}


def bias(
    count: int, kind: str, how: tuple[float, float, float], repeats: int, names: Sequence[str] = tuple(RULES)
) -> dict[str, tuple[float, float]]:
    """The bias of each rule and its standard error, as fractions of the steady step time."""
    source = random.Random(f"{count} {kind} {how}")
    errors: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        plain, more = steady(source, count, *how), warm_up(source, count, kind)
        times = [time + extra for time, extra in zip(plain, more, strict=True)]
        for name in names:
            errors[name].append(fmean(times[RULES[name](times) :]) - fmean(plain))
    return {name: (fmean(found), stdev(found) / math.sqrt(repeats)) for name, found in errors.items()}


def main() -> None:
    """Print the table."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    beyond = dict.fromkeys(RULES, 0)
    print("steps  warm-up      " + "".join(f"{name:>16}" for name in RULES))
    for count in COUNTS:
        for kind in WARM_UPS:
            found = [bias(count, kind, how, repeats) for how in NOISES]
            cells = {name: max((each[name] for each in found), key=lambda cell: abs(cell[0])) for name in RULES}
            for name in RULES:
                beyond[name] += sum(abs(each[name][0]) - 2 * each[name][1] > LIMIT for each in found)
            text = "".join(f"{100 * cell[0]:+9.2f} ± {200 * cell[1]:.2f}" for cell in cells.values())
            print(f"{count:5d}  {kind:<13}{text}", flush=True)
    cases = len(COUNTS) * len(WARM_UPS) * len(NOISES)
    print(f"beyond 0.5 % by more than twice the standard error, of {cases}: {beyond}")


if __name__ == "__main__":
    main()
