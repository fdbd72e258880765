"""Rules for steps that change over the run: slow first steps, and steps that get slower."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .budget import Part, step_times
from .case import Case, moves_with
from .clocks import Floats
from .finding import Finding, Line

SLOW = 1.1
"""A first step is slow if it takes this much longer than the later ones."""
LATER = 0.5
"""The share of the steps, at the end, that is called later."""
LEAST_SHARE = 0.05
"""Share of a step that a change over the run costs at least."""
HALVES, LONGEST_HALF = 40, 0.35
"""How many half-lives are tried, and the longest as a share of the steps: a longer one cannot be told from a drift."""
FITS = 0.9
"""Share of the variation that a curve explains if the times follow it."""
GROWS = 0.03
TREND = 0.6
"""Least correlation of the step time with the number of the step, to call it a drift."""
SMOOTH = 5


def course(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to a slow beginning, or to a drift."""
    times = smoothed(step_times(case.clocks, case.parts))
    number = np.arange(len(times), dtype=float)
    if len(times) < 2 * SMOOTH:
        return
    begin = _first_steps(times)
    if begin.mean() >= LEAST_SHARE * case.step_s:
        yield _finding(
            case,
            "warm-up",
            begin,
            f"the first {int((begin > 0).sum())} steps take up to {begin.max():.3g} s longer than the later ones",
        )
        return
    slope, start = np.polyfit(number, times, 1)
    trend = np.maximum(0, slope * number)
    if (
        slope > 0
        and slope * len(times) > GROWS * start
        and moves_with(number, times) > TREND
        and trend.mean() >= LEAST_SHARE * case.step_s
    ):
        yield _finding(
            case, "drift", trend, f"steps take {slope * len(times):.3g} s longer at the end than at the beginning"
        )


def smoothed(times: Floats) -> Floats:
    """Return the running median, which has no single slow steps."""
    padded = np.pad(times, SMOOTH // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, SMOOTH), axis=1)


def _first_steps(times: Floats) -> Floats:
    """Return how much longer the first steps take, up to the first that does not."""
    later = float(np.median(times[int(LATER * len(times)) :]))
    fast = np.flatnonzero(times <= later * 1.02)
    end = int(fast[0]) if len(fast) else 0
    excess = np.zeros_like(times)
    if not end or times[0] <= SLOW * later:
        return excess
    excess[:end] = times[:end] - later
    fitted = _fading(times)
    return excess if fitted is None else fitted


def _fading(times: Floats) -> Floats | None:
    """Return what fades by halves in equal numbers of steps, if the times do: later steps have some of it, too."""
    number, best = np.arange(len(times), dtype=float), (np.inf, np.zeros_like(times))
    for half in np.geomspace(1, LONGEST_HALF * len(times), HALVES):
        shape = 0.5 ** (number / half)
        (height, _), left, _, _ = np.linalg.lstsq(np.column_stack((shape, np.ones_like(shape))), times, rcond=None)
        if len(left) and left[0] < best[0] and height > 0:
            best = (float(left[0]), height * shape)
    explains = best[0] < (1 - FITS) * float(((times - times.mean()) ** 2).sum())
    return best[1] if explains else None


def _finding(case: Case, cause: str, times: Floats, text: str) -> Finding:
    """The log's own times are the second kind of evidence, unless other work on the cores changes alike."""
    of_each_rank = np.tile(times, (len(case.clocks.ranks), 1))
    lines = [Line("clock", f"step_clocks: {text}")]
    if _disturbed(case, times):
        text = "step_clocks: so does the share of the time in which the ranks were ready, but did not run"
        return Finding(id=cause, part=Part(own=of_each_rank), lines=[*lines, Line("clock", text)])
    logged = {step.number: step.time_s for step in case.run.steps if step.time_s is not None}
    begin = case.run.steps[0].number if case.run.steps else 0
    shared = [place for place, step in enumerate(case.clocks.step) if int(step) + begin in logged]
    if len(shared) > SMOOTH:
        printed = smoothed(np.array([logged[int(case.clocks.step[place]) + begin] for place in shared]))
        if moves_with(printed, times[shared]) > TREND:
            lines.append(Line("program", "steps.jsonl: the times that the program printed say the same"))
    return Finding(id=cause, part=Part(own=of_each_rank), lines=lines)


def _disturbed(case: Case, times: Floats) -> bool:
    """Whether other work on the cores comes and goes as the steps get longer and shorter."""
    shares = np.nan_to_num(case.counters.of_rank("run_delay")) * 1e-6 / np.maximum(case.clocks.own, 1e-9)
    return float(shares.mean()) > LEAST_SHARE and moves_with(smoothed(shares.mean(axis=0)), times) > TREND
