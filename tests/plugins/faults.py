"""Faults in trainings with exit code 0: what is changed, in which formats it shows, and what must come of it."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

from .made_log import ABSL, ASKED, Made, Numbers
from .made_run import GPUS

ALL = ("bridge", "nemo2", "maxtext")
NEMO = ("bridge", "nemo2")


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is changed in a clean training, the check that finds it, its effect, and the formats that can show it."""

    check: str
    effect: str
    change: Callable[[Made], object]
    formats: tuple[str, ...] = ALL


def _drop(log: Made, *places: int) -> None:
    log.steps = [step for place, step in enumerate(log.steps) if place not in places]


def _repeat(log: Made, count: int, **values: float) -> None:
    """Print steps twice, the second time with other values."""
    for place in range(20, 20 + count):
        twin = dict(log.steps[2 * place - 20])
        twin.update({name: twin[name] * factor for name, factor in values.items()})
        log.steps.insert(2 * place - 19, twin)


def _gradients(place: int, value: float) -> Callable[[Made], object]:
    """Every step has a gradient norm, and one has this."""
    return lambda log: [log.every(grad=2.5), log.at(place, grad=value)]


def _configured(name: str, factor: float = 0.5) -> Callable[[Made], object]:
    """The framework's final configuration states half of what was asked for; the log does not show it."""
    return lambda log: log.configured.update({name: int(factor * ASKED[name](log.spec))})


def _restart(log: Made) -> None:
    before = [{**step, "at": 1.7e9 - 1e4 + step["number"]} for step in log.steps[:30]]
    log.steps = [*before, *_with_stamps(log)]


def _with_stamps(log: Made) -> list[Numbers]:
    """The steps, whose lines have the times at which they were printed."""
    for step in log.steps:
        step["at"] = log.arrivals[step["number"]]
    return log.steps


def _mix(log: Made) -> None:
    """Two trainings in one log, whose lines were reversed."""
    log.steps = [*log.steps[::-1], *(dict(step) for step in log.steps[::-1])]


def _shuffle(log: Made) -> None:
    random.Random(3).shuffle(_with_stamps(log))


def _nodes(log: Made, **values: str) -> None:
    """Every node answers as its GPU type does by default, and the last one with other values."""
    names = ("name", "driver", "power", "max", "memory", "clock", "default_power", "default_clock")
    usual = (GPUS[log.spec.gpu_type], "550.54.15", "700.00", "1980", "2619", "1980", "700.00", "1980")
    lines = [", ".join(found) for found in (usual, [values.get(n, v) for n, v in zip(names, usual, strict=True)])]
    count = log.spec.gpus_per_node
    whole = [[lines[0]] * count for _ in range(log.spec.nodes - 1)]
    # A node alone has GPUs of both kinds, so that its GPUs differ among themselves.
    log.nodes = [*whole, [lines[0]] * (0 if whole else count - 1) + [lines[1]] * (count if whole else 1)]


def _slow_clock(log: Made, factor: float) -> None:
    begin = min(log.arrivals.values())
    log.arrivals = {number: begin + factor * (at - begin) for number, at in log.arrivals.items()}


def _faster(log: Made, factor: float) -> None:
    """Take less time, on every clock."""
    for step in log.steps:
        step["time"] /= factor
    _slow_clock(log, 1 / factor)


def _after(line: str) -> Callable[[Made], object]:
    return lambda log: log.after.append(line)


def _at_last_step(line: str) -> Callable[[Made], object]:
    return lambda log: log.inside.update({len(log.steps) - 1: [line]})


def _inside(line: str) -> Callable[[Made], object]:
    return lambda log: log.inside.update({25: [line]})


TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\nRuntimeError: boom'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
XID = "[ 1234.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
NCCL = "[rank3]: NCCL error: unhandled system error, NCCL operations have failed or timed out"
FALLBACK = "Config variant 'LLAMA3_8B_V2' not found; falling back to 'LLAMA3_8B_V1'."

EVALUATION = {
    "bridge": " validation loss at iteration 26 | lm loss value: {} | lm loss PPL: 1.0 |",
    "maxtext": f"{ABSL}Completed eval after train step 26, loss={{}}, perplexity=1.000, total_weights=4",
}
"""The line of a validation loss, by format. NeMo 2's recipes do not evaluate."""

FAULTS: dict[str, Fault] = {
    # Loss
    "no loss": Fault("loss-missing", "invalid", lambda m: m.every(loss=None)),
    "half of the losses": Fault("loss-missing", "invalid", lambda m: [m.at(k, loss=None) for k in range(0, 50, 2)]),
    "a NaN": Fault("loss-not-finite", "invalid", lambda m: m.at(30, loss=math.nan)),
    "an infinite loss": Fault("loss-not-finite", "invalid", lambda m: m.at(30, loss=math.inf)),
    "NaN from step 30 on": Fault(
        "loss-not-finite", "invalid", lambda m: [m.at(k, loss=math.nan) for k in range(30, 50)]
    ),
    "a constant loss": Fault("loss-constant", "invalid", lambda m: m.every(loss=m.steps[0]["loss"])),
    "a rising loss": Fault("loss-rising", "invalid", lambda m: m.every(loss=lambda k: m.steps[0]["loss"] + k / 9)),
    "a loss of a million": Fault("loss-diverged", "invalid", lambda m: m.at(30, loss=1e6)),
    "a loss of a million in all steps but the first": Fault(
        "loss-diverged", "invalid", lambda m: [m.at(k, loss=1e6) for k in range(1, 50)]
    ),
    "a loss that rises with scatter": Fault(
        "loss-rising", "invalid",
        lambda m: m.every(loss=lambda k: m.steps[0]["loss"] + 0.15 * k + (k % 3 - 1 if k else 0)),
    ),
    "a negative loss": Fault("loss-negative", "invalid", lambda m: m.at(30, loss=-1.5)),
    "all losses negative": Fault("loss-negative", "invalid", lambda m: m.every(loss=lambda k: -10.0 - k)),
    "a loss of 0": Fault("loss-zero", "invalid", lambda m: m.at(30, loss=0.0), NEMO),
    "all losses 0": Fault("loss-zero", "invalid", lambda m: m.every(loss=0.0), NEMO),
    "a first loss of 2": Fault("loss-start", "invalid", lambda m: m.every(loss=lambda k: 2.0 - k / 99)),
    "a first loss of 50": Fault("loss-start", "invalid", lambda m: m.every(loss=lambda k: 50.0 - k / 9)),
    "a first loss of a million": Fault("loss-start", "invalid", lambda m: m.at(0, loss=1e6)),
    "a small vocabulary": Fault("loss-start", "invalid", lambda m: m.every(loss=lambda k: 6.9 - k / 99)),
    "a NaN validation loss": Fault(
        "validation-loss", "invalid", _inside(EVALUATION["bridge"].format("NAN")), ("bridge",)
    ),
    "a NaN evaluation": Fault("validation-loss", "invalid", _inside(EVALUATION["maxtext"].format("nan")), ("maxtext",)),
    # Gradient and learning rate
    "no gradient norm": Fault("gradient-missing", "warning", lambda m: m.every(grad=None), ("bridge",)),
    "a NaN gradient": Fault("gradient-not-finite", "warning", _gradients(30, math.nan)),
    "a NaN gradient at the end": Fault("gradient-last", "invalid", _gradients(49, math.nan)),
    "all gradients 0": Fault("gradient-zero", "invalid", lambda m: m.every(grad=0.0)),
    "a negative gradient norm": Fault("gradient-negative", "invalid", _gradients(30, -1.0)),
    "a negative learning rate": Fault("rate-impossible", "invalid", lambda m: m.every(lr=-1e-5)),
    "no learning rate": Fault("rate-missing", "warning", lambda m: m.every(lr=None), NEMO),
    "a learning rate of 0": Fault("rate-zero", "invalid", lambda m: m.every(lr=0.0)),
    "skipped steps": Fault("some-skipped", "warning", lambda m: m.at(3, skipped=1), ("bridge",)),
    "every step skipped": Fault("all-skipped", "invalid", lambda m: m.every(skipped=1), ("bridge",)),
    "NaN iterations": Fault("loss-not-finite", "invalid", lambda m: m.at(30, nan=1, loss=None), ("bridge",)),
    "NaN iterations beside a loss": Fault("loss-not-finite", "invalid", lambda m: m.at(30, nan=1), ("bridge",)),
    # Work
    "half the batch": Fault("batch", "invalid", lambda m: m.every(batch=m.spec.global_batch_size // 2), NEMO),
    "a batch of 1": Fault("batch", "invalid", lambda m: m.every(batch=1), NEMO),
    "one step with another batch": Fault("batch", "invalid", lambda m: m.at(30, batch=4), NEMO),
    "no batch": Fault("work-missing", "not comparable", lambda m: m.every(batch=None), NEMO),
    "no consumed samples": Fault("work-missing", "not comparable", lambda m: m.every(consumed=None), ("bridge",)),
    "a line without consumed samples": Fault("line-incomplete", "warning", lambda m: m.at(30, consumed=None), NEMO),
    "a line cut in its consumed samples": Fault("line-incomplete", "warning", lambda m: m.at(30, consumed=15), NEMO),
    "a line without a loss": Fault("line-incomplete", "warning", lambda m: m.at(30, loss=None)),
    "half the tokens": Fault("tokens", "invalid", lambda m: m.every(tokens=m.spec.tokens_per_step // 2), ("maxtext",)),
    "one step with fewer tokens": Fault("tokens", "invalid", lambda m: m.at(40, tokens=4096), ("maxtext",)),
    "half the samples consumed": Fault(
        "consumed-samples", "invalid",
        lambda m: m.every(consumed=lambda k: (k + 1) * m.spec.global_batch_size // 2), NEMO,
    ),
    "no samples consumed": Fault("consumed-samples", "invalid", lambda m: m.every(consumed=0), NEMO),
    "more steps announced": Fault("steps", "invalid", lambda m: m.every(total=99), NEMO),
    "more steps than asked for": Fault(
        "steps", "invalid", lambda m: m.steps.extend(dict(m.steps[-1], number=m.first + 50 + k) for k in range(10))
    ),
    "half the ranks configured": Fault("ranks", "invalid", _configured("world_size"), NEMO),
    "half the batch in the final configuration": Fault("stated-batch", "invalid", _configured("global_batch_size")),
    "two micro batches in the final configuration": Fault(
        "micro-batch", "invalid", _configured("micro_batch_size", 2), NEMO
    ),
    "more forward passes in the final configuration": Fault(
        "micro-batch", "invalid", _configured("microbatches", 4), ("maxtext",)
    ),
    "half the sequence in the final configuration": Fault("sequence", "invalid", _configured("sequence_length")),
    "half the layers in the final configuration": Fault("layers", "invalid", _configured("layers")),
    "half the width in the final configuration": Fault("hidden-size", "invalid", _configured("hidden_size")),
    "half the vocabulary in the final configuration": Fault("vocabulary", "invalid", _configured("vocab_size")),
    "half the heads in the final configuration": Fault("shape", "invalid", _configured("heads")),
    "half the key heads in the final configuration": Fault("shape", "invalid", _configured("query_groups")),
    "half the feed-forward width in the final configuration": Fault(
        "shape", "invalid", _configured("ffn_hidden_size")
    ),
    "experts in a dense model": Fault(
        "shape", "invalid", lambda m: m.configured.update(experts=8), ("bridge", "maxtext")
    ),
    "half the experts in the final configuration": Fault("shape", "invalid", _configured("experts"), ("nemo2",)),
    "two experts per token in the final configuration": Fault(
        "shape", "invalid", _configured("experts_per_token", 2), ("nemo2",)
    ),
    "half the shared expert in the final configuration": Fault(
        "shape", "invalid", _configured("shared_ffn_hidden_size"), ("nemo2",)
    ),
    "a layer for multi-token prediction": Fault("shape", "invalid", lambda m: m.configured.update(mtp_layers=1)),
    "fewer ranks": Fault("ranks", "invalid", lambda m: m.stated.update(ranks=m.spec.gpus // 2), ("nemo2", "maxtext")),
    "one rank": Fault("ranks", "invalid", lambda m: m.stated.update(ranks=1), ("nemo2", "maxtext")),
    "another batch configured": Fault(
        "stated-batch", "invalid", lambda m: m.stated.update(batch=7), ("bridge", "maxtext")
    ),
    "another micro batch": Fault("micro-batch", "invalid", lambda m: m.stated.update(micro=4, microbatches=99)),
    "half the sequence": Fault("sequence", "invalid", lambda m: m.stated.update(length=2048), ("maxtext",)),
    "half the layers": Fault(
        "layers", "invalid", lambda m: m.stated.update(layers=m.spec.model.layers // 2), ("bridge", "maxtext")
    ),
    "another width": Fault("hidden-size", "invalid", lambda m: m.stated.update(hidden=1024), ("bridge", "maxtext")),
    "another vocabulary": Fault("vocabulary", "invalid", lambda m: m.stated.update(vocab=1024), ("maxtext",)),
    "half the parameters": Fault(
        "parameters", "invalid", lambda m: m.stated.update(billions=m.stated["billions"] / 2), ("bridge", "maxtext")
    ),
    "fp32": Fault("dtype", "invalid", lambda m: m.stated.update(dtype="fp32"), ("bridge", "maxtext")),
    "fp8": Fault("dtype", "invalid", lambda m: m.stated.update(dtype="fp8"), ("bridge", "maxtext")),
    "a fallback": Fault("fallback", "not comparable", lambda m: m.before.append(FALLBACK), NEMO),
    # Time
    "ten times as fast as the peak": Fault(
        "over-peak", "invalid", lambda m: _faster(m, 30)
    ),
    "90 % of the peak": Fault("near-peak", "warning", lambda m: _faster(m, 0.9 / 0.4)),
    "one step faster than the peak": Fault(
        "fast-step", "invalid", lambda m: m.at(40, time=m.steps[40]["time"] / 20)
    ),
    "a run that took half the time of its steps": Fault(
        "run-shorter", "invalid", lambda m: setattr(m, "lasted", sum(step["time"] for step in m.steps) / 2)
    ),
    "times of 0": Fault("window-share", "invalid", lambda m: [m.at(k, time=0.0) for k in range(36, 50)]),
    "steps that claim half the time": Fault("clock-long", "invalid", lambda m: _slow_clock(m, 2.5)),
    "steps that claim twice the time": Fault("clock-short", "invalid", lambda m: _slow_clock(m, 0.5)),
    "a line of 200 KiB": Fault("long-line", "warning", lambda m: m.before.append("x" * 200_000)),
    "a number that no step can have": Fault("odd-number", "warning", lambda m: m.at(5, number=10**18)),
    "a damaged step number": Fault("out-of-order", "invalid", lambda m: m.at(30, number=3)),
    "a step number with a digit too many": Fault("out-of-order", "invalid", lambda m: m.at(30, number=305)),
    "a gap": Fault("step-gap", "warning", lambda m: _drop(m, 5, 6)),
    "a gap in the window": Fault("step-gap", "warning", lambda m: _drop(m, 40)),
    "half the window": Fault("window-share", "invalid", lambda m: _drop(m, *range(15, 49, 2))),
    "a step twice": Fault("step-twice", "warning", lambda m: _repeat(m, 1, loss=0.9, time=1.1)),
    "two writers": Fault("two-writers", "invalid", lambda m: _repeat(m, 10, loss=0.9)),
    "two writers with other times": Fault("two-writers", "invalid", lambda m: _repeat(m, 10, time=1.1), NEMO),
    "lines in reverse order": Fault("out-of-order", "invalid", lambda m: _with_stamps(m).reverse()),
    "lines in any order": Fault("out-of-order", "invalid", _shuffle),
    "lines of two trainings in reverse order": Fault("out-of-order", "invalid", _mix),
    "a restart": Fault("restarted", "invalid", _restart),
    # End
    **{
        f"at the end: {line}": Fault("crash-at-end", "failed", _after(line))
        for line in (
            "F0000 CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
            "Process group watchdog thread terminated with exception: NCCL communicator was aborted on rank 3.",
            "Aborted (core dumped)", "Bus error", "Fatal Python error: Aborted", "srun: error: n1: task 3: Aborted",
            "terminate called after throwing an instance of 'c10::Error'", "Memory access fault by GPU node-1",
        )
    },
    "no last line": Fault("last-line", "failed", lambda m: setattr(m, "last_line", False), NEMO),
    "out of memory at the end": Fault("crash-at-end", "failed", _after(OOM)),
    "Xid at the end": Fault("crash-at-end", "failed", _after(XID)),
    "an illegal access at the end": Fault("crash-at-end", "failed", _after(ILLEGAL)),
    "an NCCL abort at the end": Fault("crash-at-end", "failed", _after(NCCL)),
    "a traceback at the end": Fault("crash-at-end", "failed", _after(TRACEBACK)),
    "a traceback of a thread at the end": Fault(
        "crash-at-end", "failed", _after(f"Exception in thread Thread-1 (save):\n{TRACEBACK}")
    ),
    "an NCCL abort before the last line": Fault("crash-at-end", "failed", _at_last_step(NCCL)),
    "a segmentation fault at the end": Fault("crash-at-end", "failed", _after("Segmentation fault (core dumped)")),
    "Xid inside": Fault("failure-inside", "warning", _inside(XID)),
    "an NCCL error inside": Fault("failure-inside", "warning", _inside(NCCL)),
    # Hardware
    "no GPU that anybody saw": Fault("gpu-unseen", "not comparable", lambda m: setattr(m, "seen", None)),
    "an H200": Fault("gpu-type", "not comparable", lambda m: setattr(m, "seen", ["NVIDIA H200"] * 8)),
    "an A100": Fault("gpu-type", "not comparable", lambda m: setattr(m, "seen", ["NVIDIA A100-SXM4-80GB"] * 8)),
    "a missing GPU": Fault(
        "gpu-count", "not comparable",
        lambda m: setattr(m, "seen", [GPUS[m.spec.gpu_type]] * 7),
    ),
    "an H200 on the last node": Fault("gpu-type", "not comparable", lambda m: _nodes(m, name="NVIDIA H200")),
    "a missing GPU on the last node": Fault(
        "gpu-count", "not comparable", lambda m: (_nodes(m), m.nodes[-1].pop())
    ),
    "a lowered power limit": Fault("gpu-power", "not comparable", lambda m: _nodes(m, power="500.00")),
    "a lowered clock": Fault("gpu-clock", "not comparable", lambda m: _nodes(m, clock="1200")),
    "another highest clock": Fault("gpu-mixed", "warning", lambda m: _nodes(m, max="1755")),
    "another driver": Fault("gpu-driver", "warning", lambda m: _nodes(m, driver="535.1")),
    "a CPU": Fault("backend", "not comparable", lambda m: m.stated.update(backend="cpu"), ("maxtext",)),
}  # fmt: skip
