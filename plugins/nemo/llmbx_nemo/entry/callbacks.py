"""Callbacks for Megatron-Bridge's training loop: profiles of exact steps, fused Adam, and no duplicate checkpoint.

For nsys, Megatron-Bridge itself calls CUDA's profiler functions at the profiled steps. Its option for torch's profiler
is not used: it starts one step early, and writes nothing if the run ends together with the profile.
"""

from __future__ import annotations

from typing import Any

from llmbx.entry.step_clock import StepClock
from llmbx_nemo.entry.execution import Host, Spec
from llmbx_nemo.entry.loop import Callback
from llmbx_nemo.entry.step_profile import StepProfile, of_rank


def chosen(spec: Spec, host: Host, clock: StepClock, saves_again: bool) -> list[Callback]:
    """Return the callbacks that this rank needs.

    `saves_again` states whether the installed version saves a second checkpoint after the training loop.
    """
    callbacks: list[Callback] = [Clocked(clock)]
    if profile := of_rank(spec, host):
        callbacks.append(Profiled(profile))
    if host.cuda and not host.te:
        callbacks.append(FusedAdam())
    if spec["checkpoint"]["save"] and saves_again:
        callbacks.append(SaveOnce())
    return callbacks


class Clocked(Callback):
    """Measures the steps."""

    def __init__(self, clock: StepClock) -> None:
        self.clock = clock

    def on_train_step_start(self, context: Any) -> None:
        self.clock.begin(context.state.train_state.step)

    def on_train_step_end(self, context: Any) -> None:
        self.clock.end()

    def on_train_end(self, context: Any) -> None:
        self.clock.close()


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


class Profiled(Callback):
    """Notifies the profile of the rank's steps."""

    def __init__(self, profile: StepProfile) -> None:
        self.profile = profile

    def on_train_step_start(self, context: Any) -> None:
        self.profile.begin(context.state.train_state.step)

    def on_train_step_end(self, context: Any) -> None:
        self.profile.end(context.state.train_state.step)
