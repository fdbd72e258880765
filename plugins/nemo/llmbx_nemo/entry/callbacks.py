"""Callbacks for Megatron-Bridge's training loop: profiles of exact steps, fused Adam, and no duplicate checkpoint.

Steps [start, stop) are counted from zero. For nsys, Megatron-Bridge itself calls CUDA's profiler functions at these
steps. Its option for torch's profiler is not used: it starts one step early, and writes nothing if the run ends
together with the profile.
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
"""Folder for the traces of torch's profiler, relative to the run folder. The files are `rank<N>.pt.trace.json.gz`."""


def chosen(spec: Spec, host: Host, saves_again: bool) -> list[Callback]:
    """Return the callbacks that this rank needs.

    `saves_again` states whether the installed version saves a second checkpoint after the training loop.
    """
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
    """Prevents `pretrain` from saving the last step again, which the training loop has saved already."""

    def on_train_end(self, context: Any) -> None:
        context.state.cfg.checkpoint.save = None


class FusedAdam(Callback):
    """Switches to torch's fused Adam, for a GPU without Transformer Engine's Adam.

    Torch's default Adam makes one pass over its tensors per operation, and needs another copy of the weights in FP32.
    """

    def on_train_start(self, context: Any) -> None:
        for group in context.optimizer.param_groups:
            if "fused" in group:
                group["fused"], group["foreach"] = True, False


class Ranges(Callback):
    """Emits NVTX ranges for the profiled steps. Without CUDA, the ranges also start and stop the capture."""

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
    """Runs torch's profiler over the profiled steps of one rank. Step N is marked as `ProfilerStep#N`."""

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
