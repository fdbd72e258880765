"""Callbacks for Megatron-Bridge's training loop: profiles of exact steps, fused Adam, and no duplicate checkpoint.

For nsys, Megatron-Bridge itself calls CUDA's profiler functions at the profiled steps. Its option for torch's profiler
is not used: it starts one step early, and writes nothing if the run ends together with the profile.
"""

from __future__ import annotations

from typing import Any

from llmbx_nemo.entry.execution import Host, Spec
from llmbx_nemo.entry.loop import Callback
from llmbx_nemo.entry.step_profile import StepProfile, of_rank
from llmbx_nemo.entry.verified import BridgeSteps, connect, stopped


def chosen(spec: Spec, host: Host, clock: Any, verified: BridgeSteps | None, saves_again: bool) -> list[Callback]:
    """Return the callbacks that this rank needs.

    `verified` repeats the passes of the last step, which the clock leaves out. `saves_again` states whether the
    installed version saves a second checkpoint after the training loop.
    """
    callbacks: list[Callback] = [Clocked(clock, verified is not None)] if clock is not None else []
    if verified:
        callbacks.append(Verified(verified))
    if profile := of_rank(spec, host):
        callbacks.append(Profiled(profile))
    if host.cuda and not host.te:
        callbacks.append(FusedAdam())
    if spec["checkpoint"]["save"] and saves_again:
        callbacks.append(SaveOnce())
    return callbacks


class Clocked(Callback):
    """Measures the steps, but one whose passes are repeated."""

    def __init__(self, clock: Any, repeats: bool) -> None:
        self.clock, self.repeats = clock, repeats

    def on_train_step_start(self, context: Any) -> None:
        if not (self.repeats and is_last(context.state)):
            self.clock.begin(context.state.train_state.step)

    def on_train_step_end(self, context: Any) -> None:
        self.clock.end()

    def on_train_end(self, context: Any) -> None:
        self.clock.close()


class Verified(Callback):
    """Has the passes of the last step repeated."""

    def __init__(self, steps: BridgeSteps) -> None:
        self.steps = steps

    def on_train_step_start(self, context: Any) -> None:
        state = context.state
        if is_last(state):
            connect(self.steps.passes, context.model, state.cfg.model)
            self.steps.passes.pause = lambda: stopped(state.timers)
            self.steps.verified = state.train_state.step + 1


def is_last(state: Any) -> bool:
    """Whether the step that begins is the last one."""
    return bool(state.train_state.step == state.cfg.train.train_iters - 1)


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
