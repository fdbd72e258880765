"""Rules for communication that takes long although all ranks are there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .budget import Part
from .case import UNCERTAIN, Case
from .clocks import Floats
from .finding import Finding, Line

IDLE = 0.5
"""Share of the communication in which no rank runs, if it waits for the network."""
LEAST_SHARE = 0.05
LOST = 5e-4
"""Share of the segments of TCP that a network that loses some sends again."""
SEGMENT = 1448
"""Bytes of a segment."""
LOOPBACK = "lo"
"""Ranks of one node meet here: what they send says nothing of a network."""
REGULAR = 0.01
"""A link that is narrow takes as long for the same bytes in each step: the distance of the quartiles. A late
network is nearly as regular: 1.6 % with 12.5 ms (tuning.toml)."""


def network(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to the network."""
    if case.stages > 1 or len(case.clocks.ranks) < 2 or not case.clocks.sees_waits:
        return
    times, lines = _longer(case)
    if times.mean() < max(case.least_s, LEAST_SHARE * case.step_s):
        return
    cause, more = _kind(case, times)
    yield Finding(id=cause, part=Part(shared=times), lines=[*lines, *more])


def _longer(case: Case) -> tuple[Floats, list[Line]]:
    """Communication beyond that of the other run; or that in which every rank slept."""
    taken = [part.shared for part in case.parts if part.shared is not None]
    shared = np.maximum(0, case.clocks.shared - sum(taken)) if taken else case.clocks.shared
    mean = float(shared.mean())
    idle = _idle(case, mean)
    text = f"step_clocks: all ranks communicate for {mean:.3g} s a step"
    slept = Line("counter", f"telemetry: no rank ran in {idle:.3g} s of them")
    if case.healthy is not None:
        usual = float(case.healthy.clocks.shared.mean()) * max(1.0, _more_bytes(case, case.healthy))
        more = max(0.0, mean - usual)
        lines = [Line("clock", f"{text}, {usual:.3g} s in the other run")]
        return _above(shared, more), [*lines, slept] if idle >= max(IDLE * more, 1e-9) else lines
    uncertain = UNCERTAIN * float(case.taken.mean(axis=1).max())
    if idle < max(IDLE * mean, uncertain, 1e-9):
        return np.zeros_like(shared), []
    return _above(shared, idle), [Line("clock", text), slept]


def _above(shared: Floats, mean_s: float) -> Floats:
    """Return what exceeds a level in each step, of this mean: what a network loses is in few long steps."""
    longest = np.sort(shared)[::-1]
    # the level between the k-th and the next longest step leaves (sum of k - k * level) / steps
    levels = (np.cumsum(longest) - mean_s * len(shared)) / np.arange(1, len(shared) + 1)
    return np.asarray(np.maximum(0, shared - max(0.0, float(levels.max()))))


def _idle(case: Case, most: float) -> float:
    """Return the seconds of a step's communication in which every rank slept; 0 if it is unknown."""
    if not case.ran.any():
        return 0.0
    slept = case.asleep - case.clocks.phases["data"].mean(axis=1)
    return float(np.clip(slept.min(), 0, most))


def _kind(case: Case, times: Floats) -> tuple[str, list[Line]]:
    name, sent = _interface(case)
    share = _sent_again(case, sent)
    theirs = _sent_again(case.healthy, _interface(case.healthy)[1]) if case.healthy else 0.0
    if share > max(LOST, 2 * theirs):
        return "network-loss", [Line("counter", f"telemetry: {share:.2%} of the TCP segments were sent again")]
    usual = _interface(case.healthy)[0] if case.healthy else name
    if usual != name:
        return "network-fallback", [Line("counter", f"telemetry: {name} was used, {usual} in the other run")]
    shared = case.clocks.shared
    low, middle, high = np.quantile(shared, (0.25, 0.5, 0.75))
    if sent and high - low < REGULAR * middle:
        rate = sent / len(shared) / middle
        text = (
            f"telemetry: {name} sends {rate / 1e6:.3g} MB/s in each step (quartiles within {(high - low) / middle:.1%})"
        )
        return "network-fallback", [Line("counter", text)]
    if not sent or name == LOOPBACK:
        return "network-latency", []
    return "network-latency", [Line("counter", f"telemetry: {name} sends {sent / len(shared) / 1e6:.3g} MB a step")]


def _more_bytes(case: Case, healthy: Case) -> float:
    """Return how many times as many bytes a step sends as in the other run; 1 if it is unknown."""
    own, theirs = (_interface(each)[1] / len(each.clocks.step) for each in (case, healthy))
    return own / theirs if own and theirs else 1.0


def _interface(case: Case) -> tuple[str, float]:
    """Return the interface through which most was sent during the steps, and how many bytes that were."""
    names = case.counters.columns("net", "sent")
    sent = {name: float(np.nansum(case.counters.of_node([name]), axis=1).max()) for name in names}
    name = max(sent, key=lambda each: sent[each], default="")
    return name.removeprefix("net.").removesuffix(".sent"), sent.get(name, 0.0)


def _sent_again(case: Case, sent: float) -> float:
    """Return the share of the segments that were sent again."""
    node = float(np.nansum(case.counters.of_node(["tcp.retransmitted"]), axis=1).max())
    own = float(np.nansum(case.counters.of_rank("net.retransmitted"), axis=1).max())
    return max(node, own) / (sent / SEGMENT) if sent else 0.0
