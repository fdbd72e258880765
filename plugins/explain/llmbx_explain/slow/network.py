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
RETRANSMITTED = 1.0
"""Segments a second of a network that loses them."""
SMALL = 0.25
"""Share of the longer communication that is in small messages, if the network is late and not narrow."""
TIMEOUT_S = 0.15
"""TCP sends a lost segment again after 0.2 s or more."""


def network(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to the network."""
    if case.stages > 1 or not case.clocks.sees_waits:
        return
    times, lines = _longer(case)
    if times.mean() < max(case.least_s, LEAST_SHARE * case.step_s):
        return
    cause, more = _kind(case, times)
    yield Finding(id=cause, part=Part(shared=times), lines=[*lines, *more])


def _longer(case: Case) -> tuple[Floats, list[Line]]:
    """Communication beyond that of the other run; or that in which every rank slept."""
    shared = case.clocks.shared
    mean = float(shared.mean())
    text = f"step_clocks: all ranks communicate for {mean:.3g} s a step"
    if case.healthy is not None:
        usual = float(case.healthy.clocks.shared.mean())
        more = max(0.0, mean - usual)
        text += f", {usual:.3g} s in the other run"
        return shared * (more / max(mean, 1e-9)), [Line("clock", text)]
    slept = case.asleep - case.clocks.phases["data"].mean(axis=1)
    idle = float(np.clip(slept.min(), 0, mean))
    uncertain = UNCERTAIN * float(case.taken.mean(axis=1).max())
    if not case.ran.any() or idle < max(IDLE * mean, uncertain):
        return np.zeros_like(shared), []
    lines = [Line("clock", text), Line("counter", f"telemetry: no rank ran in {idle:.3g} s of them")]
    return shared * (idle / max(mean, 1e-9)), lines


def _kind(case: Case, times: Floats) -> tuple[str, list[Line]]:
    again = np.nan_to_num(case.counters.of_node(["tcp.retransmitted"])).sum(axis=1).max()
    again = max(again, np.nan_to_num(case.counters.of_rank("net.retransmitted")).sum(axis=1).max())
    rate = again / (case.step_s * len(case.clocks.step))
    if rate > RETRANSMITTED:
        return "network-loss", [Line("counter", f"telemetry: {rate:.3g} segments a second were sent again")]
    return "network-latency", []
