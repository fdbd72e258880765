"""Rules for the loading of data: slow loaders, and slow disks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .budget import Part
from .case import Case
from .clocks import Floats
from .finding import Finding, Line

USUAL, MOST_USUAL = 0.02, 0.08
"""Share of a step that loading may take on every rank, and from which all of it is too long."""
FROM_DISK = 1e5
"""Bytes a second that a rank reads from a disk if its loader waits for it."""


def loading(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to the loading of data."""
    times = _excess(case)
    if not times.any():
        return
    row = case.alone(times)
    chosen = int(times.mean(axis=1).argmax()) if row is None else row
    rank, seconds = case.clocks.ranks[chosen], float(case.clocks.phases["data"][chosen].mean())
    lines = [Line("clock", f"step_clocks/rank-{rank}.bin: loads data for {seconds:.3g} s a step{_peers(case, row)}")]
    read = case.per_second("io.read_bytes")[chosen]
    if read > FROM_DISK:
        lines.append(Line("counter", f"telemetry: rank{rank}.io.read_bytes: {read / 1e6:.3g} MB/s from the disk"))
        yield Finding(id="disk", part=Part(own=times), lines=lines, row=row)
        return
    slept = min(float(case.asleep[chosen]), seconds)
    how = f"slept for {slept:.3g} s a step" if slept > 0.5 * seconds else f"ran for {case.ran[chosen]:.3g} s a step"
    if case.ran.any():
        lines.append(Line("counter", f"telemetry: rank{rank}: {how} meanwhile, and read nothing from a disk"))
    yield Finding(id="data-loading", part=Part(own=times), lines=lines, row=row)


def _excess(case: Case) -> Floats:
    """Seconds of loading beyond the usual, of the ranks of which it is more than a little."""
    data = np.maximum(0, case.clocks.phases["data"] - _share_taken(case))
    usual = min(float(np.median(data, axis=1).min()), USUAL * case.step_s)
    if case.healthy is not None:
        usual = float(case.healthy.clocks.phases["data"].mean())
    excess = np.maximum(0, data - usual)
    if case.healthy is None and data.mean(axis=1).max() < MOST_USUAL * case.step_s:
        return np.zeros_like(excess)
    return np.where(excess.mean(axis=1, keepdims=True) >= case.least_s, excess, 0.0)


def _share_taken(case: Case) -> Floats:
    """The part of what has a cause already that was in the loading of data."""
    own = np.maximum(case.clocks.own, 1e-9)
    return case.taken * case.clocks.phases["data"] / own


def _peers(case: Case, row: int | None) -> str:
    if row is None:
        return ""
    others = float(np.median(np.delete(case.clocks.phases["data"].mean(axis=1), row)))
    return f", the other ranks {others:.3g} s"
