"""Judge whether the mean of a window represents its steps: stable, or else in which way it does not.

A verdict other than `stable` needs an effect that chance rarely shows and that matters for the mean. The first that
applies is the verdict, in this order:

- `too few steps`: fewer than `LEAST_STEPS`; below, neither a level shift nor a correlation of the steps can be seen.
- `two-level`: two separate groups of steps (`series.two_levels`), alternating or one after the other.
- `drifting`: a trend beyond its interval, which accounts for correlated steps (`series.drift`), and of 1 % or more.
- `outliers`: single steps far from the median (`series.outliers`) that move the mean by more than `NOTABLE_SHIFT`.
- `noisy`: the mean is uncertain by more than `LARGEST_UNCERTAINTY`.

`benchmarks/stability.py` measures the error rates with simulated, correlated noise; docs/stability.md has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from llmbx.api import Stability, Step, choose_window, mean_of, median_of

from .statistics import autoregression, intervals, series, steady, warm_up

NEGLIGIBLE = 1.05
"""How many times what noise leaves uncertain is not worth a word about the rest of a warm-up."""

LEAST_STEPS = 8
"""Fewest steps with a verdict: with fewer, steps that take twice as long in half of the window pass for noise."""

NOTABLE_SHIFT = 0.005
"""Relative shift of the mean by outliers from which they matter: 90 of 100 repeats of a run differ by less (MLPerf
Training 5.0 and 5.1: 0.54 %)."""

LARGEST_UNCERTAINTY = 0.01
"""Largest relative uncertainty of a stable mean: a fifth of the 5 % by which a run may be slower than a reference."""

LONGEST_STEP_S = 1e9
"""Longer step times (over 30 years) come from damaged logs and are not judged."""


def of_window(
    policy: str, steps: Sequence[Step], measured: Sequence[Step], excluded: Collection[int] = ()
) -> Stability:
    """The stability of the `measured` steps, which the policy chose of `steps` without those numbered `excluded`.

    The policy `last` measures one step, which stands for the steady state: that is judged, and whether the step belongs
    to it.
    """
    if policy.strip().lower() != "last" or not measured:
        return _with_warm_up(judge(measured), steps, measured, excluded)
    window, steady = choose_window(steps, "auto", excluded)
    judged = judge(steady)
    if judged.verdict in (None, "too few steps"):
        return judged
    place = f"steps {window.first}-{window.last}"
    odd = {outlier.number: outlier.ratio for outlier in series.detect(steady).outliers}
    if ratio := odd.get(measured[-1].number):
        reason = f"the measured step took {ratio:.2f} times as long as the median of {place}"
        return Stability(verdict="outliers", reason=reason)
    return Stability(verdict=judged.verdict, reason=f"{place}: {judged.reason}")


def _with_warm_up(
    judged: Stability, steps: Sequence[Step], measured: Sequence[Step], excluded: Collection[int]
) -> Stability:
    """A stable window is drifting if the steps before it show that a warm-up reaches into it.

    One that may do so makes the mean less certain.
    """
    if judged.verdict != "stable":
        return judged
    last = measured[-1].number
    usable = [s for s in steps if s.number <= last and not s.skipped and s.number not in excluded and s.covers == 1]
    timed = [step for step in usable if step.time_s is not None]
    before = sum(step.number < measured[0].number for step in timed)
    if before < 2:
        return judged
    times = series.times_of(timed)
    rest = warm_up.rest_in(times, before)
    if rest is not None and rest.matters:
        return Stability(verdict="drifting", reason=f"{warm_up.words(rest)}; {judged.reason}")
    window = series.times_of(measured)
    noise = uncertainty(window) or 0.0
    whole = max(noise + warm_up.doubt_in(times, before), steady.distance(times, before, noise / 1.96) or 0.0)
    return _with_doubt(judged, window, noise, whole)


def _with_doubt(judged: Stability, times: Sequence[float], noise: float, whole: float) -> Stability:
    """A stable window whose mean may be too high by what is left of a warm-up: that adds to its uncertainty."""
    if whole <= NEGLIGIBLE * noise:
        return judged
    _, _, more = (judged.reason or "").partition("; ")
    rest = f"up to {_percent(whole - noise)} of it the rest of a warm-up"
    noisy = whole > LARGEST_UNCERTAINTY
    limit = f"more than ±{100 * LARGEST_UNCERTAINTY:g} %, {rest}; {_median(times)}" if noisy else rest
    reason = f"the mean of {len(times)} steps is uncertain by ±{_percent(whole)}, {limit}"
    return Stability(verdict="noisy" if noisy else "stable", reason=f"{reason}; {more}" if more else reason)


def judge(steps: Sequence[Step]) -> Stability:
    """The stability of the measured steps, in the order of the log; steps without a time are ignored."""
    timed = [step for step in steps if step.time_s is not None]
    times = series.times_of(timed)
    if not times:
        return Stability()
    if not all(0 < time < LONGEST_STEP_S for time in times):
        return Stability(reason="not judged: a step time is not positive, or longer than 30 years")
    if len(times) < LEAST_STEPS:
        measured = "1 step was" if len(times) == 1 else f"{len(times)} steps were"
        reason = f"{measured} measured, but a verdict needs {LEAST_STEPS}: use a longer --window or more steps"
        return Stability(verdict="too few steps", reason=reason)
    findings = [*_findings(timed, times)]
    reason = "; ".join(part.reason or "" for part in findings)
    return Stability(verdict=next((part.verdict for part in findings if part.verdict), "stable"), reason=reason)


def _findings(steps: Sequence[Step], times: Sequence[float]) -> Iterator[Stability]:
    """What is notable about the window, the verdict first; without one for what does not change the verdict."""
    seen = series.detect(steps)
    if seen.levels is not None:
        yield Stability(verdict="two-level", reason=series.level_words(seen.levels))
    if seen.drift is not None:
        yield Stability(verdict="drifting", reason=series.drift_words(seen.drift))
    shift = _shift(seen.outliers, times)
    matters = shift > NOTABLE_SHIFT
    explained = seen.levels is not None or seen.drift is not None or matters
    noise = 0.0 if explained else uncertainty(times) or 0.0
    noisy = noise > LARGEST_UNCERTAINTY
    if noisy:
        most = f"more than ±{100 * LARGEST_UNCERTAINTY:g} %"
        reason = f"the mean of {len(times)} steps is uncertain by ±{_percent(noise)}, {most}; {_median(times)}"
        yield Stability(verdict="noisy", reason=reason)
    elif not explained:
        reason = f"the mean of {len(times)} steps is uncertain by ±{_percent(noise)}"
        yield Stability(verdict="stable", reason=reason)
    if seen.outliers:
        words = f"{series.outlier_words(seen.outliers)}, which move{'s' * (len(seen.outliers) == 1)} the mean by up to"
        figure = f"; {_median(times)}" if matters else ""
        yield Stability(verdict="outliers" if matters else None, reason=f"{words} {_percent(shift)}{figure}")


def _median(times: Sequence[float]) -> str:
    """The figure for a window whose mean depends on single steps, in words."""
    time = intervals.median_over_steps(times)
    assert time is not None
    return f"the median is {time.mean:.4g} s (95 % interval {time.low:.4g} to {time.high:.4g} s)"


def uncertainty(times: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the mean, relative to the mean; None for fewer than four times.

    It is that of normally distributed, correlated steps with the standard error at the median of its posterior. The
    interval of `intervals.over_steps` also contains the doubt about the correlation, which makes that of ten steps up
    to five times as wide as it needs to be; this one is within a factor of two in 90 of 100 series.
    """
    middle = mean_of(times)
    if not middle or len(times) < 4:
        return None
    mixture = autoregression.mean(times)
    return 1.96 * mixture.typical_scale / middle if mixture is not None else 0.0


def _shift(outliers: Sequence[series.Outlier], times: Sequence[float]) -> float:
    """How much outliers move the mean, relative to it; slow and fast ones do not cancel."""
    middle, mean = median_of(times) or 0.0, mean_of(times) or 0.0
    return sum(abs(outlier.time_s - middle) for outlier in outliers) / (len(times) * mean)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %" if fraction < 0.1 else f"{100 * fraction:.0f} %"
