"""Shims that let Megatron-Core train without CUDA. They redirect data to the CPU and change no arithmetic.

Megatron has no CPU mode: even with the official options (gloo, local layers, no fusion, `allow_no_cuda`) it gets
devices, streams and random states from torch.cuda. Each shim here replaces one such function; the comments name the
files of Megatron-Core 0.16 and Megatron-Bridge 0.3 that use it. Importing this module raises `ImportError` if CUDA is
available.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

if torch.cuda.is_available():
    raise ImportError("the CPU shims must not be used if CUDA is available")

CPU = torch.device("cpu")


def _returning(value: Any = None) -> Callable[..., Any]:
    """Return a new function that returns `value`. Torch's tables require a different object for every name."""
    return lambda *_, **__: value


class Stream:
    """A CUDA stream whose work is always complete (token_dispatcher, model_provider, schedules)."""

    device = CPU
    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def wait_stream(self, *_: Any) -> None: ...
    def wait_event(self, *_: Any) -> None: ...
    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()


class Event:
    """A CUDA event that stores the time at which it was recorded (timers, token_dispatcher)."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.at = 0.0

    def record(self, *_: Any) -> None:
        self.at = time.perf_counter()

    def wait(self, *_: Any) -> None: ...
    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, later: Event) -> float:
        return (later.at - self.at) * 1e3


class _Generators(tuple[Any, ...]):
    """The default generators by device; each one is the CPU's (tensor_parallel/random)."""

    def __getitem__(self, _: Any) -> Any:
        return torch.default_generator


class CudaMeansCpu(TorchFunctionMode):
    """Replaces the device "cuda" by "cpu" in torch calls of this thread."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]  # t.cuda(): gpt_step, get_model; pinned memory: data loaders
        if func is torch.Tensor.record_stream:
            return None  # token_dispatcher
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            # the optimizers and clip_grads accept only 'torch.cuda.*Tensor'
            return func(*args).replace("torch.", "torch.cuda.")
        if func is torch.Tensor.to and len(args) > 1 and _is_cuda(args[1]):
            args = (args[0], CPU, *args[2:])
        if _is_cuda(kwargs.get("device")):
            # device="cuda" literals: schedules, clip_grads, optimizer, setup, train_utils, initialize
            kwargs = {**kwargs, "device": CPU}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        return func(*args, **kwargs)


def _is_cuda(device: Any) -> bool:
    return isinstance(device, str | torch.device) and str(device).startswith("cuda")


def install() -> None:
    """Replace functions of torch.cuda until the process ends. Call it before Megatron is imported."""
    stream = Stream()
    cuda: Any = torch.cuda
    cuda.current_device = _returning(CPU)  # rotary embedding, router, layers, mappings, buffers, timers
    cuda.set_device = _returning()  # initialize
    cuda.synchronize = _returning()  # timers
    cuda.empty_cache = _returning()  # initialize, optimizer
    cuda.manual_seed = torch.manual_seed  # tensor_parallel/random
    # the RNG tracker and checkpointing
    cuda.get_rng_state = cuda.random.get_rng_state = lambda *_, **__: torch.get_rng_state()
    cuda.set_rng_state = cuda.random.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    cuda._lazy_call = lambda call, **_: call()  # RNG tracker
    cuda.default_generators = _Generators()  # RNG tracker
    cuda.Stream, cuda.Event = Stream, Event
    cuda.current_stream, cuda.default_stream = _returning(stream), _returning(stream)
    cuda.stream = _returning(contextlib.nullcontext())
    cuda.nvtx.range_push, cuda.nvtx.range_pop = _returning(), _returning()  # core/utils
    CudaMeansCpu().__enter__()


def patch_megatron() -> None:
    """Patch Megatron-Core and Megatron-Bridge themselves. Call it after they have been imported."""
    patch_core()
    _patch_fsdp()
    _patch_bridge()
    # The tracker warns on every switch that "GPU" code changed the CPU's random state: here both are the same state.
    logging.getLogger("megatron.core.tensor_parallel.random").setLevel(logging.ERROR)


def patch_core() -> None:
    """Patch Megatron-Core 0.12 and newer to convert the split sizes of tokens to numpy on a CPU, too.

    The original converts only tensors that it has moved from a GPU.
    """
    from megatron.core.transformer.moe import token_dispatcher

    move = getattr(token_dispatcher, "maybe_move_tensor_to_cpu", None)
    if move is None:
        return

    @functools.wraps(move)
    def to_cpu(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
        if as_numpy and torch.is_tensor(tensor) and not tensor.is_cuda:
            return tensor.numpy()
        return move(tensor, as_numpy=as_numpy, record_stream=record_stream)

    token_dispatcher.maybe_move_tensor_to_cpu = to_cpu


def _patch_fsdp() -> None:
    """Patch torch's FSDP2 in Megatron-Core to shard over a mesh of CPUs; the original names the device "cuda"."""
    from megatron.core.distributed import torch_fully_sharded_data_parallel as fsdp

    mesh: Any = getattr(fsdp, "DeviceMesh", None)
    if mesh is not None:
        fsdp.DeviceMesh = types.SimpleNamespace(
            from_group=lambda group, _device, **more: mesh.from_group(group, "cpu", **more)
        )


def _patch_bridge() -> None:
    from megatron.bridge.training import initialize, setup

    # an official argument that `pretrain` does not pass on
    setup.initialize_megatron = functools.partial(setup.initialize_megatron, allow_no_cuda=True)

    # they seed Megatron's RNG tracker, and up to version 0.2 create its process groups, only if there is a device
    initialize._set_random_seed = _with_one_device(initialize._set_random_seed)
    initialize._initialize_distributed = _with_one_device(initialize._initialize_distributed)


def _with_one_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `function` so that `torch.cuda.device_count()` is 1 while it runs."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        count = torch.cuda.device_count
        torch.cuda.device_count = _returning(1)
        try:
            return function(*args, **kwargs)
        finally:
            torch.cuda.device_count = count

    return call
