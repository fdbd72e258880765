"""Callbacks for Megatron-Bridge's training loop: profiles over exact steps, and one checkpoint, not two.

Steps [start, stop) are counted from zero. Megatron-Bridge brackets them for nsys with CUDA's profiler calls; its own
switch for torch's profiler begins a step early and writes nothing when the run ends with the profile.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from llmbx.entry.ranges import Marks, nvtx_module
from llmbx_nemo.entry.execution import Host, Spec
from llmbx_nemo.entry.loop import Callback
from llmbx_nemo.entry.settings import profiled_ranks

TRACES = "torch_profile"
"""Where traces of torch's profiler go, relative to the run folder: `rank<N>.pt.trace.json.gz`."""


def chosen(spec: Spec, host: Host, saves_again: bool) -> list[Callback]:
    """What this rank needs. `saves_again`: this version saves once more after the loop."""
    found: list[Callback] = []
    wanted, rank = spec["profile"], int(os.environ["RANK"])
    if wanted and rank in profiled_ranks(spec, host):
        if wanted["tool"] == "torch":
            found.append(TorchProfile(wanted["start"], wanted["stop"], rank, host.cuda))
        elif wanted["tool"] == "nsys" and (nvtx := nvtx_module()):
            found.append(Ranges(wanted["start"], wanted["stop"], nvtx, host.cuda))
    if host.cuda and not host.te:
        found.append(FusedAdam())
    if spec["checkpoint"]["save"] and saves_again:
        found.append(SaveOnce())
    return found


class SaveOnce(Callback):
    """The loop has saved the last step: keep `pretrain` from writing the same checkpoint again."""

    def on_train_end(self, context: Any) -> None:
        context.state.cfg.checkpoint.save = None


class FusedAdam(Callback):
    """Torch's Adam in one kernel, where Transformer Engine's is not installed.

    The usual one goes through memory once for each operation, and needs room for another copy of the weights in FP32.
    """

    def on_train_start(self, context: Any) -> None:
        for group in context.optimizer.param_groups:
            if "fused" in group:
                group["fused"], group["foreach"] = True, False


class Ranges(Callback):
    """NVTX ranges for a profiler that looks on. Without CUDA they also say when it is to look."""

    def __init__(self, start: int, stop: int, nvtx: Any, cuda: bool) -> None:
        self.start, self.stop, self.marks = start, stop, Marks(nvtx, whole=not cuda)

    def on_train_step_start(self, context: Any) -> None:
        step = context.state.train_state.step
        if step == self.start:
            self.marks.begin()
        self.marks.step(step)

    def on_train_step_end(self, context: Any) -> None:
        self.marks.pause()
        if context.state.train_state.step == self.stop - 1:
            self.marks.end()


class TorchProfile(Callback):
    """Torch's profiler over the profiled steps of one rank, each marked as `ProfilerStep#N`."""

    def __init__(self, start: int, stop: int, rank: int, cuda: bool) -> None:
        from torch.profiler import ProfilerActivity, profile

        self.start, self.stop, self.rank = start, stop, rank
        self.profiler = profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])])

    def on_train_step_start(self, context: Any) -> None:
        from torch.profiler import record_function

        step = context.state.train_state.step
        if step == self.start:
            self.profiler.start()
        if self.start <= step < self.stop:
            self.mark = record_function(f"ProfilerStep#{step}")
            self.mark.__enter__()

    def on_train_step_end(self, context: Any) -> None:
        step = context.state.train_state.step
        if self.start <= step < self.stop:
            self.mark.__exit__(None, None, None)
        if step == self.stop - 1:
            self.profiler.stop()
            Path(TRACES).mkdir(exist_ok=True)
            self.profiler.export_chrome_trace(f"{TRACES}/rank{self.rank}.pt.trace.json.gz")
