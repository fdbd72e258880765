"""Repeat the passes of one step, to see whether a rank computes the same twice (`run --verify-compute`).

With the same weights, batch and random numbers, the forward and backward passes give the same bits, or
a rank computes wrongly. A program needs three lines:

    twice = verify.of_torch(spec, folder, model)    # before the training
    for _ in twice.passes(step, step == last):      # around the passes of a step; one pass, or two
        twice.add("loss", loss)                     # in a pass, after the backward pass

Gradients are compared as the rank computed them, before the ranks reduce them: PyTorch's data parallelism
is seen by itself, another program adds them as `gradient NAME`. Without any, those of the parameters are
compared. Between the passes, buffers
and random numbers are set back; the program sets the gradients to zero, and takes the same batch.

`verify/rank-N.json` has what was compared, the names of what differs, and sums of the weights, which
are equal in data-parallel ranks. A sum is that of all elements, whose bits are read as integers: each
flipped bit changes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llmbx.entry import rank

FOLDER = "verify"
"""In the run folder."""
_SETTING = "verify_compute"
"""The setting that asks for it."""
_BOUND = 1e-3
"""Relative difference of the norms of two passes from which they differ, where kernels may add in any order."""
_NEXT = 31
"""Factor between two tensors of one name, so that changes of their last bits do not cancel."""
_MOST_NAMED = 8
_STORED = ("_local_tensor", "_data", "_rowwise_data")
"""Attributes of tensors of other classes, sharded or quantized, with the tensor that has the bits."""
LOSS, WEIGHT, GRADIENT = "loss", "weight", "gradient"
"""First words of the names of what is compared."""

State = tuple[Callable[[], Any], Callable[[Any], object]]
"""A function that returns a state, and one that sets it back."""


def requested(spec: Mapping[str, Any]) -> bool:
    """Return whether the run is to be verified."""
    return any(settings.get(_SETTING) for settings in spec.get("plugin_settings", {}).values())


def refuse(spec: Mapping[str, Any], folder: Path, reason: str) -> None:
    """Record why this rank repeats no step, if it was to."""
    if requested(spec):
        _write(folder, {"reason": reason})


def _checksum(tensor: Any) -> Any:
    """Return the sum of a tensor's elements, their bits read as integers: a tensor of 64 bits."""
    import torch

    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    inner = tensor
    for name in _STORED:
        part = getattr(tensor, name, None)
        if torch.is_tensor(part):
            inner = part
            break
    return inner.detach().contiguous().view(kinds[inner.element_size()]).sum(dtype=torch.int64)


class Passes:
    """The passes of the steps of one rank; only those of a verified step are compared."""

    def __init__(self, folder: Path | None, modules: Sequence[Any] = (), states: Sequence[State] = ()) -> None:
        self.folder, self.modules = folder, modules
        self.states: list[State] = [*states]
        self.peers: Mapping[str, Sequence[int]] = {}
        """Ranks that have the same weights, by what `group` returns; without it, no weights are compared."""
        self.group: Callable[[str, Any], str] = lambda name, parameter: ""
        """By the name of a parameter and the parameter: the key of its peers."""
        self.exact = True
        """Whether every bit is compared; else norms, as some kernels add in an order that changes."""
        self.pause: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
        """A context in which the second pass runs: the program's clock stands."""
        self._sums: list[dict[str, Any]] = []

    @property
    def running(self) -> bool:
        """Whether a pass is running that is compared."""
        return bool(self._sums)

    def passes(self, step: int, verified: bool = True) -> Iterator[int]:
        """Yield 0 for the pass of a step, and 1 for a second one if the step is to be verified."""
        if self.folder is None or not verified:
            yield 0
            return
        saved = self._save()
        self._sums = [{}]
        yield 0
        with self.pause():
            began = time.monotonic()
            self._end_of_pass()
            self._restore(saved)
            self._sums.append({})
            yield 1
            self._end_of_pass()
            _write(self.folder, self._record(step, time.monotonic() - began))
        self._sums = []

    def add(self, name: str, tensor: Any) -> None:
        """Note a tensor of the pass; those of one name are noted together, in their order."""
        if self._sums:
            sums, total = self._sums[-1], self._sum(tensor)
            sums[name] = sums[name] * _NEXT + total if name in sums else total

    def _sum(self, tensor: Any) -> Any:
        if self.exact:
            return _checksum(tensor)
        import torch

        return torch.linalg.vector_norm(tensor.detach().flatten(), dtype=torch.float64)

    def _end_of_pass(self) -> None:
        named = [*self._named()]
        if not any(name.startswith(GRADIENT) for name in self._sums[-1]):
            for name, parameter in named:
                if parameter.grad is not None:
                    self.add(f"{GRADIENT} of {name}", parameter.grad)
        sums = self._sums[-1]
        for name, parameter in named:
            sums[f"{WEIGHT} {name}"] = _checksum(parameter)

    def _named(self) -> Iterator[tuple[str, Any]]:
        for number, module in enumerate(self.modules):
            before = f"{number}." if len(self.modules) > 1 else ""
            for name, parameter in module.named_parameters():
                yield before + name, parameter

    def _buffers(self) -> list[Any]:
        return [buffer for module in self.modules for _, buffer in module.named_buffers()]

    def _save(self) -> list[Any]:
        return [[buffer.clone() for buffer in self._buffers()], *(get() for get, _ in self.states)]

    def _restore(self, saved: list[Any]) -> None:
        import torch

        with torch.no_grad():
            for buffer, before in zip(self._buffers(), saved[0], strict=True):
                buffer.copy_(before)
        for (_, put), state in zip(self.states, saved[1:], strict=True):
            put(state)

    def _record(self, step: int, seconds: float) -> dict[str, Any]:
        first, second = ({name: total.item() for name, total in sums.items()} for sums in self._sums)
        names = sorted({*first, *second}, key=lambda name: (name.split()[0] != LOSS, name))
        differing = [name for name in names if self._differ(name, first.get(name), second.get(name))]
        return {
            "step": step,
            "exact": self.exact,
            "compared": _counts(names),
            "differ": _counts(differing),
            "differing": differing[:_MOST_NAMED],
            "weights": self._weights(second),
            "seconds": seconds,
        }

    def _differ(self, name: str, first: Any, second: Any) -> bool:
        if first is None or second is None:
            return True
        if self.exact or name.startswith(WEIGHT):
            return bool(first != second)
        return not abs(first - second) <= _BOUND * max(abs(first), abs(second))

    def _weights(self, sums: Mapping[str, int]) -> list[dict[str, Any]]:
        """One sum for all weights that the same ranks have."""
        totals: dict[str, int] = {}
        for name, parameter in self._named():
            group = self.group(name, parameter)
            if group in self.peers:
                totals[group] = (totals.get(group, 0) * _NEXT + sums[f"{WEIGHT} {name}"]) % (1 << 64)
        return [{"of": group, "ranks": [*self.peers[group]], "sum": f"{total:016x}"} for group, total in totals.items()]


def of_torch(spec: Mapping[str, Any], folder: Path, *modules: Any) -> Passes:
    """Return the passes of a PyTorch program; all ranks have the same weights."""
    import torch

    if not requested(spec):
        return Passes(None)
    passes = Passes(folder, modules, random_states())
    for module in modules:
        if hasattr(module, "register_comm_hook"):
            _see_buckets(passes, module)
    passes.exact = not torch.cuda.is_available() or torch.are_deterministic_algorithms_enabled()
    passes.peers = {"": range(rank.this().world)}
    return passes


def _see_buckets(passes: Passes, module: Any) -> None:
    """Sum each bucket of gradients before PyTorch's data parallelism reduces it, as it does without a hook."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    def reduced(group: Any, bucket: Any) -> Any:
        passes.add(f"{GRADIENT} bucket {bucket.index()}", bucket.buffer())
        return allreduce_hook(group, bucket)

    reduced.__annotations__ = {}
    module.register_comm_hook(None, reduced)


def random_states() -> list[State]:
    """Return the states of PyTorch's random numbers."""
    import torch

    states: list[State] = [(torch.get_rng_state, torch.set_rng_state)]
    if torch.cuda.is_available():
        states.append((torch.cuda.get_rng_state, torch.cuda.set_rng_state))
    return states


def _counts(names: Sequence[str]) -> dict[str, int]:
    return {kind: sum(name.startswith(kind) for name in names) for kind in (LOSS, GRADIENT, WEIGHT)}


def _write(folder: Path, record: Mapping[str, Any]) -> None:
    this = rank.this()
    node = os.environ.get("LLMBX_NODE_NAME") or platform.node()
    path = folder / FOLDER / f"rank-{this.number}.json"
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"rank": this.number, "node": node, **record}) + "\n", encoding="utf-8")
    part.replace(path)
