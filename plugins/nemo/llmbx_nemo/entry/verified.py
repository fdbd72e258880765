"""Repeat the passes of the last step in Megatron's training loops (`run --verify-compute`).

The gradients are summed where Megatron starts to reduce a bucket of them. Between the passes, batches,
random numbers, buffers and the tracked losses of the experts' router are set back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from llmbx_nemo.entry.execution import Host, Spec, setting

try:
    from llmbx.entry import verify
except ImportError:  # no installed plugin brings it
    verify = None
Passes = Any
"""That of `llmbx.entry.verify`."""

DELAYED = "FP8 with delayed scaling takes its scales from the passes before"
GRAPH = "a CUDA graph of the whole iteration hides the gradients before their reduction"
PROFILED = "the last step is profiled"


def obstacle(spec: Spec) -> str | None:
    """Return why the last step of this run cannot be repeated; None if it can."""
    profile = spec.get("profile")
    sparse = bool(spec["model"].get("experts")) or spec["parallelism"]["fsdp"]
    if profile and profile["stop"] >= spec["steps"]:
        return PROFILED
    if spec["cuda_graphs"] and not sparse:
        return GRAPH
    if spec["dtype"] == "fp8" and setting(spec, "fp8_recipe", "cs") == "delayed":
        return DELAYED
    return None


def of_run(spec: Spec, host: Host, folder: Path) -> Passes:
    """Return the passes of this rank; None if no step is to be repeated, or if none can be."""
    if verify is None or not verify.requested(spec):
        return None
    if reason := obstacle(spec):
        verify.refuse(spec, folder, reason)
        return None
    passes = verify.Passes(folder, states=[*verify.random_states(), tracker_state(), router_losses()])
    passes.exact = not host.cuda
    passes.group = lambda name, parameter: "" if getattr(parameter, "allreduce", True) else "experts"
    see_gradients(passes)
    return passes


def connect(passes: Passes, modules: Any, config: Any) -> None:
    """Tell the passes the model, and which ranks have the same weights."""
    from megatron.core import parallel_state
    from torch.distributed import get_process_group_ranks as ranks_of

    passes.modules = [*modules]
    passes.exact = passes.exact or bool(getattr(config, "deterministic_mode", False))
    passes.peers = {
        "": ranks_of(parallel_state.get_data_parallel_group(with_context_parallel=True)),
        "experts": ranks_of(parallel_state.get_expert_data_parallel_group()),
    }


def see_gradients(passes: Passes) -> None:
    """Sum each bucket of gradients before it is reduced."""
    from megatron.core.distributed import param_and_grad_buffer

    group = param_and_grad_buffer._ParamAndGradBucketGroup
    start = group.start_grad_sync
    numbers: dict[int, int] = {}

    def summed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if passes.running and getattr(self, "grad_reduce_handle", None) is None:
            for bucket in self.buckets:
                number = numbers.setdefault(id(bucket), len(numbers))
                passes.add(f"{verify.GRADIENT} bucket {number}", bucket.grad_data)
        return start(self, *args, **kwargs)

    group.start_grad_sync = summed


def add_losses(passes: Passes, losses: Any) -> None:
    """Add the losses of the micro-batches; only the last stage of a pipeline has some."""
    import torch

    for of_batch in losses or ():
        values = of_batch.values() if isinstance(of_batch, Mapping) else [of_batch]
        for value in values:
            for part in value if isinstance(value, tuple | list) else [value]:
                if torch.is_tensor(part):
                    passes.add(verify.LOSS, part)


def tracker_state() -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """Return the state of Megatron's random numbers."""
    from megatron.core import tensor_parallel

    def get() -> dict[str, Any]:
        states = tensor_parallel.get_cuda_rng_tracker().get_states()
        return {name: state.clone() if hasattr(state, "clone") else state for name, state in states.items()}

    return get, lambda states: tensor_parallel.get_cuda_rng_tracker().set_states(states)


def router_losses() -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """Return the losses of the experts' routers, which the passes of a step add up."""
    from megatron.core import parallel_state
    from megatron.core.transformer.moe import moe_utils

    name = "get_moe_layer_wise_logging_tracker"
    tracked: Callable[[], dict[str, Any]] = getattr(moe_utils, name, getattr(parallel_state, name, dict))

    def get() -> dict[str, Any]:
        return {name: entry["values"].clone() for name, entry in tracked().items() if "values" in entry}

    def put(values: dict[str, Any]) -> None:
        for name, entry in tracked().items():
            if "values" in entry:
                entry["values"].copy_(values[name]) if name in values else entry["values"].zero_()

    return get, put


class Replayed:
    """An iterator whose items can be had again."""

    def __init__(self, source: Iterator[Any]) -> None:
        self.source = source
        self.items: list[Any] = []
        self.place: int | None = None

    def __iter__(self) -> Replayed:
        return self

    def __next__(self) -> Any:
        if self.place is None or self.place >= len(self.items):
            self.items.append(next(self.source))
            item = self.items[-1]
        else:
            item = self.items[self.place]
            self.place += 1
        return dict(item) if isinstance(item, dict) else item

    def rewind(self) -> None:
        """Begin again."""
        self.place = 0


def see_bridge(passes: Passes) -> BridgeSteps:
    """Let Megatron-Bridge's training step repeat its loop, and sum its losses."""
    from megatron.bridge.training import train
    from megatron.core import rerun_state_machine

    steps = BridgeSteps(passes)
    choose = train.get_forward_backward_func

    def chosen(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        run = choose(*args, **kwargs)

        def summed(*args: Any, **kwargs: Any) -> Any:
            losses = run(*args, **kwargs)
            add_losses(passes, losses)
            return losses

        return summed

    train.get_forward_backward_func = chosen
    machine = rerun_state_machine.RerunStateMachine
    should_run = machine.should_run_forward_backward

    def repeated(self: Any, data_iterator: Any) -> bool:
        return steps.should_run(data_iterator, lambda: bool(should_run(self, data_iterator)))

    machine.should_run_forward_backward = repeated
    return steps


class BridgeSteps:
    """The steps of Megatron-Bridge's loop, of which one is verified."""

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        self.verified: int | None = None
        """The step that is running, if it is to be verified."""
        self._passes: Iterator[int] | None = None
        self._batches: list[tuple[Any, Replayed]] = []

    def should_run(self, data_iterator: Any, ask: Callable[[], bool]) -> bool:
        """Return whether the training step runs its passes, or runs them again."""
        if self.verified is None:
            return ask()
        if self._passes is None:
            self._record(data_iterator)
            self._passes = self.passes.passes(self.verified)
            next(self._passes)
            return ask()
        if (number := next(self._passes, None)) is not None:
            for _, replayed in self._batches:
                replayed.rewind()
            return number > 0
        for iterator, replayed in self._batches:
            iterator.iterable = replayed.source
        self.verified = self._passes = None
        return ask()

    def _record(self, data_iterator: Any) -> None:
        iterators = data_iterator if isinstance(data_iterator, list) else [data_iterator]
        self._batches = []
        for iterator in {id(each): each for each in iterators if each is not None}.values():
            replayed = Replayed(iterator.iterable)
            iterator.iterable = replayed
            self._batches.append((iterator, replayed))


@contextlib.contextmanager
def stopped(timers: Any) -> Iterator[None]:
    """Stop the timer of the steps."""
    timer = timers("interval-time", log_level=0)
    timer.stop()
    try:
        yield
    finally:
        timer.start()


def see_nemo2(passes: Passes) -> None:
    """Let NeMo 2 repeat the passes of the trainer's last step."""
    from nemo.lightning.megatron_parallel import MegatronStep

    see_local_losses(passes)
    run = MegatronStep.__call__

    def repeated(self: Any) -> Any:
        trainer = self.trainer
        if self.forward_only or trainer.global_step != trainer.max_steps - 1:
            return run(self)
        connect(passes, self.pipeline, trainer.lightning_module.config)
        passes.pause = lambda: outside_timers(trainer.callbacks)
        sources = self.data if isinstance(self.data, list) else [self.data]
        replayed = {id(source): Replayed(source) for source in sources}
        batches = [replayed[id(source)] for source in sources]
        self.data = batches if isinstance(self.data, list) else batches[0]
        losses = None
        for number in passes.passes(trainer.global_step):
            if number:
                set_to_zero(self.pipeline, trainer.optimizers)
                for each in batches:
                    each.rewind()
            losses = run(self)
        return losses

    MegatronStep.__call__ = repeated


def see_local_losses(passes: Passes) -> None:
    """Add the loss of each micro-batch before NeMo 2 averages it over the data-parallel ranks."""
    from nemo.collections.nlp.modules.common.megatron import utils

    average = utils.average_losses_across_data_parallel_group

    def summed(losses: Any) -> Any:
        for loss in losses:
            passes.add(verify.LOSS, loss)
        return average(losses)

    utils.average_losses_across_data_parallel_group = summed


def set_to_zero(modules: Any, optimizers: Any) -> None:
    """Set the gradients to zero, as NeMo does before a step."""
    for module in modules:
        module.zero_grad_buffer()
    for optimizer in optimizers:
        optimizer.zero_grad()


@contextlib.contextmanager
def outside_timers(callbacks: Any) -> Iterator[None]:
    """Leave the time out of what NeMo's callbacks measure of the step."""
    began = time.time()
    try:
        yield
    finally:
        timers = [
            callback.timer.timers for callback in callbacks if hasattr(getattr(callback, "timer", None), "timers")
        ]
        for running in (each for named in timers for each in named.values() if "start" in each):
            running["start"] += time.time() - began
