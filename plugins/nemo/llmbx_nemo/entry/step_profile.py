"""Profile exact steps of one rank, whatever its training loop: NVTX ranges for nsys, or torch's own profiler.

Steps [start, stop) are counted from zero. A loop calls `begin` and `end` of every step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from llmbx.entry.ranges import Marks, nvtx_module
from llmbx_nemo.entry.execution import Host, Spec
from llmbx_nemo.entry.settings import profiled_ranks

TRACES = "torch_profile"
"""Folder for the traces of torch's profiler, relative to the run folder. The files are `rank<N>.pt.trace.json.gz`."""


class StepProfile(Protocol):
    """What a training loop has to call."""

    def begin(self, step: int) -> None:
        """Call before the step."""

    def end(self, step: int) -> None:
        """Call after the step."""


def of_rank(spec: Spec, host: Host) -> StepProfile | None:
    """Return the requested profile of this rank's steps; None without one, and without nvtx for nsys."""
    profile, rank = spec["profile"], int(os.environ["RANK"])
    if not profile or rank not in profiled_ranks(spec, host):
        return None
    if profile["tool"] == "torch":
        return TorchProfile(profile["start"], profile["stop"], rank, host.cuda)
    if profile["tool"] == "nsys" and (nvtx := nvtx_module()):
        return Ranges(profile["start"], profile["stop"], nvtx, host.cuda)
    return None


class Ranges:
    """Emits NVTX ranges for the profiled steps. Without CUDA, the ranges also start and stop the capture."""

    def __init__(self, start: int, stop: int, nvtx: Any, cuda: bool) -> None:
        self.start, self.stop, self.marks = start, stop, Marks(nvtx, whole=not cuda)

    def begin(self, step: int) -> None:
        if step == self.start:
            self.marks.begin()
        self.marks.step(step)

    def end(self, step: int) -> None:
        self.marks.pause()
        if step == self.stop - 1:
            self.marks.end()


class TorchProfile:
    """Runs torch's profiler over the profiled steps of one rank. Step N is marked as `ProfilerStep#N`."""

    def __init__(self, start: int, stop: int, rank: int, cuda: bool) -> None:
        from torch.profiler import ProfilerActivity, profile

        self.start, self.stop, self.rank = start, stop, rank
        self.profiler = profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])])

    def begin(self, step: int) -> None:
        from torch.profiler import record_function

        if step == self.start:
            self.profiler.start()
        if self.start <= step < self.stop:
            self.mark = record_function(f"ProfilerStep#{step}")
            self.mark.__enter__()

    def end(self, step: int) -> None:
        if self.start <= step < self.stop:
            self.mark.__exit__(None, None, None)
        if step == self.stop - 1:
            self.profiler.stop()
            Path(TRACES).mkdir(exist_ok=True)
            self.profiler.export_chrome_trace(f"{TRACES}/rank{self.rank}.pt.trace.json.gz")
