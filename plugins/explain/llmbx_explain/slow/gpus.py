"""Rules for GPUs: lowered clocks and their reasons, other processes, and GPUs that are slow without either."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .budget import Part
from .case import Case, moves_with
from .clocks import Floats
from .finding import Finding, Line

LOWER = 0.97
"""A clock below this share of what it is compared with is lowered."""
SLOWED = 0.05
"""Share of the time that a reason has to hold longer than elsewhere to be the reason."""
ALWAYS = 0.5
"""Share of the time from which a reason that holds elsewhere, too, is the reason for a lower clock."""
MOVES = 0.5
FAR = 0.5
"""Share of the samples in which a rank is on cores of another NUMA node than its GPU's."""
REASONS = {
    "throttle-thermal": ("throttled.thermal", 0x20 | 0x40, "temperature"),
    "throttle-power": ("throttled.power", 0x04 | 0x80, "power limit"),
}
"""The driver's counter of nanoseconds, the bits of its reasons, and the reason in words."""


def clocks(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to lowered clocks of the GPUs."""
    clock = case.counters.level_of_gpu("clock.sm")
    if np.isnan(clock).all():
        return
    means = np.array([_mean(row) for row in clock])
    usual, what = _usual(case, means)
    lowered = means < LOWER * usual
    shares = {cause: _share(case, cause) for cause in REASONS}
    for cause in (*REASONS, "clock-limit"):
        places = [int(row) for row in np.flatnonzero(lowered)]
        rows = [row for row in places if _reason(case, row, shares) == cause]
        if not rows:
            continue
        times = np.zeros_like(case.work)
        for row in rows:
            ratio = np.where(np.isnan(clock[row]), means[row], clock[row]) / usual[row]
            times[row] = case.work[row] * np.clip(1 - ratio, 0, 1)
        if times.mean(axis=1).max() >= case.least_s:
            yield _finding(case, cause, times, rows, means, float(usual[rows[0]]), what, shares)


def _mean(values: Floats) -> float:
    return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")


def _usual(case: Case, means: Floats) -> tuple[Floats, str]:
    """What each clock is compared with: the other run, the other GPUs, or the maximum of the GPU."""
    if case.healthy is not None:
        theirs = _mean(case.healthy.counters.level_of_gpu("clock.sm"))
        if not np.isnan(theirs):
            return np.full(len(means), theirs), "in the other run"
    middle = float(np.nanmedian(means))
    if np.nanmin(means) < LOWER * middle:
        return np.full(len(means), middle), "on the other GPUs"
    tops = [case.counters.fact(row, gpu or "", "sm_max_mhz") for row, gpu in enumerate(case.counters.gpus)]
    busy = np.nan_to_num(case.counters.level_of_gpu("busy")).mean(axis=1)
    top = [float(value) if isinstance(value, int) else np.nan for value in tops]
    return np.where(busy > 50, np.array(top), np.nan), "at most"


def _share(case: Case, cause: str) -> Floats:
    """The share of the time in which the driver lowered each GPU's clock for a reason, beyond the usual."""
    own = _slowed(case, cause)
    if case.healthy is not None:
        return own - float(np.nanmean(_slowed(case.healthy, cause)))
    peers = np.array([np.median(own[case.peers(row)]) if case.peers(row) else 0.0 for row in range(len(own))])
    return own - np.where(own > peers + SLOWED, peers, 0.0)


def _slowed(case: Case, cause: str) -> Floats:
    counter, bits, _ = REASONS[cause]
    counted = case.counters.of_gpu(counter).mean(axis=1) * 1e-9 / case.step_s
    reasons = np.nan_to_num(case.counters.level_of_gpu("throttle")).astype(np.int64)
    return np.asarray(np.where(np.isnan(counted), ((reasons & bits) != 0).mean(axis=1), counted))


def _reason(case: Case, row: int, shares: dict[str, Floats]) -> str:
    """The reason that holds longer than elsewhere; one that always holds is the reason here, too."""
    beyond = max(shares, key=lambda cause: float(shares[cause][row]))
    if shares[beyond][row] >= SLOWED:
        return beyond
    always = {cause: float(_slowed(case, cause)[row]) for cause in REASONS}
    longest = max(always, key=lambda cause: always[cause])
    return longest if always[longest] >= ALWAYS else "clock-limit"


def _finding(
    case: Case,
    cause: str,
    times: Floats,
    rows: list[int],
    means: Floats,
    usual: float,
    what: str,
    shares: dict[str, Floats],
) -> Finding:
    row = int(rows[0]) if len(rows) == 1 and len(means) > 1 else None
    shown = int(rows[0])
    gpu, rank = case.counters.gpus[shown], case.clocks.ranks[shown]
    lines = [
        Line("counter", f"telemetry: {gpu} of rank {rank}: clock.sm {means[shown]:.0f} MHz, {what} {usual:.0f} MHz")
    ]
    if cause in REASONS:
        percent = 100 * _slowed(case, cause)[shown]
        text = f"telemetry: {gpu}: lowered by its {REASONS[cause][2]} for {percent:.0f} % of the time"
        lines.append(Line("counter", text))
    if cause == "throttle-power":
        lines += _power_limit(case, shown)
    lines += _times(case, shown, row)
    return Finding(id=cause, part=Part(own=times), lines=lines, row=row)


def _power_limit(case: Case, shown: int) -> list[Line]:
    """The limit beside the GPU's default: a GPU that is fully used reaches the default, too."""
    gpu = case.counters.gpus[shown] or ""
    limit, usual = (case.counters.fact(shown, gpu, name) for name in ("power_limit_mw", "power_default_mw"))
    if not isinstance(limit, int) or not isinstance(usual, int):
        return []
    of_default = "its default" if limit == usual else f"its default is {usual / 1000:.0f} W"
    return [Line("counter", f"telemetry: {gpu}: power limit {limit / 1000:.0f} W, {of_default}")]


def _times(case: Case, shown: int, row: int | None) -> list[Line]:
    """A time that moves with the clock: against the other ranks, the other run, or over the steps."""
    waits = case.clocks.phases["wait"].mean(axis=1)
    if row is not None and waits[row] <= waits.min():
        others = float(np.median(np.delete(waits, row)))
        return [
            Line(
                "clock",
                f"step_clocks: rank {case.clocks.ranks[row]} waits {waits[row]:.3g} s a step, they {others:.3g} s",
            )
        ]
    if case.healthy is not None and case.step_s > case.healthy.step_s + case.least_s:
        return [
            Line(
                "clock", f"step_clocks: a step takes {case.step_s:.4g} s, in the other run {case.healthy.step_s:.4g} s"
            )
        ]
    moved = moves_with(case.work[shown], -np.nan_to_num(case.counters.level_of_gpu("clock.sm")[shown]))
    if moved > MOVES:
        return [Line("clock", f"step_clocks: steps are longer at a lower clock (correlation {moved:.2f})")]
    return []


def has_foreign_process(case: Case, row: int) -> Line | None:
    """Return the evidence for other processes on a rank's GPU; None without any."""
    foreign = np.nan_to_num(case.counters.level_of_gpu("foreign_processes")[row])
    if foreign.mean() < 0.3:
        return None
    gpu = case.counters.gpus[row]
    return Line(
        "counter",
        f"telemetry: {gpu}.foreign_processes: {foreign.max():.0f} ({100 * (foreign > 0).mean():.0f} % of the steps)",
    )


def is_far_from_gpu(case: Case, row: int) -> Line | None:
    """Return the evidence that a rank runs on cores that are not next to its GPU, but its peers do."""
    shares = {rank: _share_far(case, rank) for rank in (row, *case.peers(row))}
    theirs = [share for rank, share in shares.items() if rank != row and share is not None]
    share = shares[row]
    if share is None or share < FAR or (theirs and float(np.median(theirs)) >= FAR):
        return None
    rank, gpu = case.clocks.ranks[row], case.counters.gpus[row]
    text = f"telemetry: rank{rank}.cpu: on cores that are not next to {gpu} in {100 * share:.0f} % of the samples"
    return Line("counter", text)


def _share_far(case: Case, row: int) -> float | None:
    """The share of a rank's samples on cores that the driver does not call next to its GPU; None if unknown."""
    mask = case.counters.fact(row, case.counters.gpus[row] or "", "near_cpus")
    cores = case.counters.samples_of_rank(row, "cpu")
    if not isinstance(mask, str) or not len(cores):
        return None
    near = int(mask, 16)
    return float(np.mean([not near >> int(core) & 1 for core in cores]))


def clock_is_usual(case: Case, row: int) -> Line | None:
    """Return the evidence that a slow rank's GPU has the clock of the others; None if it is unknown."""
    means = [_mean(values) for values in case.counters.level_of_gpu("clock.sm")]
    if np.isnan(means[row]) or not case.peers(row):
        return None
    theirs = float(np.nanmedian([means[peer] for peer in case.peers(row)]))
    return Line(
        "counter",
        f"telemetry: {case.counters.gpus[row]}: clock.sm {means[row]:.0f} MHz, as the others' ({theirs:.0f} MHz)",
    )
