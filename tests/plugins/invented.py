"""A third list of faults, written down before any of them was tried and before a rule was changed for them.

The verdict of a fault is the least that must come of it: a stronger one is right, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .faults import ALL, _at_last_step, _nodes
from .made_log import ABSL, Made
from .made_run import GPUS
from .silent import EVALUATED, MANY, MEGATRON, STEPS, Silent, _drop, _from, _inside, _line, _pause, _times

LOADED = "  successfully loaded checkpoint from /c [ t 1/1, p 1/1 ] at iteration {}"


def _jump(place: int, seconds: float) -> Callable[[Made], None]:
    """The clock of the node that prints the log is set from this line on; the follower's is right."""

    def change(log: Made) -> None:
        for number, step in enumerate(log.steps):
            step["at"] = log.arrivals[step["number"]] + seconds * (number >= place)

    return change


def _text(rewrite: Callable[[list[str]], list[str]]) -> Callable[[Made], object]:
    """Change the lines of the whole log."""
    return lambda log: setattr(log, "rewrite", rewrite)


def _into(lines: list[str]) -> list[str]:
    """Two writers without a lock: a part of a line is printed inside the one before."""
    places = range(len(lines) - 30, len(lines) - 5, 6)
    for place in places:
        middle = len(lines[place]) // 2
        lines[place : place + 2] = [lines[place][:middle] + lines[place + 1], lines[place][middle:]]
    return lines


def _hole(lines: list[str]) -> list[str]:
    """A block of a file system that was lost when a node went down, inside two lines."""
    begin, end = len(lines) - 28, len(lines) - 22
    return [*lines[:begin], lines[begin][:40] + "\0" * 4096 + lines[end][60:], *lines[end + 1 :]]


def _numbers(place: int, more: int) -> Callable[[Made], object]:
    """The steps have other numbers from a place on."""
    return lambda log: _from(place, number=lambda k: log.first + k + more)(log)


def _thousands(log: Made) -> None:
    """Times of 12 s and more, in a locale with a separator of thousands."""
    log.commas = "thousands"


def _slower_and_slower(share: float) -> Callable[[Made], None]:
    return lambda log: _times(**{f"from_{k}_to_{k}": (1 + share) ** k for k in range(50)})(log)


def _evaluated(log: Made) -> None:
    """An evaluation in the middle of the window, whose time the log counts to the next step."""
    kind = {"nemo2": "nemo2", "maxtext-2024.12": "maxtext"}.get(log.spec.driver, "bridge")
    log.inside.update({39: [EVALUATED[kind].format(40)]})
    _times(from_40_to_40=3.0)(log)


def _loaded(place: int) -> Callable[[Made], None]:
    """The weights of an earlier training, whose loss is lower."""

    def change(log: Made) -> None:
        log.before.append(LOADED.format(place))
        if place:
            log.steps = log.steps[place:]
        log.every(loss=lambda k: 4.0 - 0.01 * k)

    return change


def _consumed(factor: float, place: int = 0, more: int = 0) -> Callable[[Made], object]:
    """The samples that were read grow by this factor from a place on, or begin with more."""
    size = "batch"
    return lambda log: [
        log.at(k, consumed=int(step[size] * (k + 1 + more + (factor - 1) * max(0, k + 1 - place))))
        for k, step in enumerate(log.steps)
    ]


def _one_less(log: Made) -> None:
    _nodes(log)
    log.nodes[-1] = log.nodes[-1][:-1]


def _one_other(log: Made) -> None:
    log.seen = [GPUS[log.spec.gpu_type]] * 7 + ["NVIDIA A100-SXM4-80GB"]


def _usual(log: Made) -> float:
    return float(log.steps[20]["time"])


INVENTED: dict[str, Silent] = {
    # Storage and data
    "storage that gets slower by 1 % a step": Silent("", "warning", _slower_and_slower(0.01)),
    "storage that gets slower by 0.3 % a step": Silent("", "warning", _slower_and_slower(0.003)),
    "samples that cannot be read": Silent(
        "storage-warning", "warning",
        _inside("WARNING: skipping corrupted sample 88213 of shard-00017.tar: checksum mismatch"),
    ),
    "a worker of the data loader that is started again": Silent(
        "", "warning", _inside("WARNING: DataLoader worker (pid 812) is killed by signal: Killed. Restarting worker.")
    ),
    "a checkpoint that is not written": Silent(
        "", "warning", _inside("ERROR: async checkpoint save failed: OSError: [Errno 28] No space left on device")
    ),
    "a file system that is read-only": Silent(
        "", "warning", _inside("[ 99.1] EXT4-fs error (device nvme0n1p1): remounting filesystem read-only")
    ),
    "an NFS server that does not answer": Silent(
        "", "warning", _inside("[ 99.1] nfs: server storage1 not responding, still trying")
    ),
    "a Lustre target that is lost": Silent(
        "", "warning",
        _inside("[ 99.1] Lustre: scratch-OST0007-osc: Connection to scratch-OST0007 (at 10.1.1.7@o2ib) was lost; "
                "in progress operations using this service will wait for recovery to complete"),
    ),
    "another tokenizer": Silent(
        "", "not comparable", _line("WARNING: tokenizer /t/llama3 not found, using the GPT-2 tokenizer instead")
    ),
    # Clocks
    "a clock that is set forward by ten minutes": Silent("", "warning", _jump(25, 600.0), ("megatron",)),
    "a clock that is set forward by an hour": Silent("", "warning", _jump(25, 3600.0), ("megatron",)),
    "a clock that is set back by an hour": Silent("", "warning", _jump(25, -3600.0), ("megatron",)),
    "a step that takes a hundredth of the time": Silent(
        "", "warning", lambda m: m.at(38, time=m.steps[38]["time"] / 100)
    ),
    "ten times that are printed again and again": Silent(
        "", "warning", lambda m: m.every(time=lambda k: m.steps[20 + k % 10]["time"] * (1 + 0.003 * math.cos(k % 10)))
    ),
    "times that are all the same in milliseconds": Silent(
        "", "warning", lambda m: m.every(time=round(_usual(m), 3))
    ),
    "times with a separator of thousands": Silent("", "invalid", _thousands, MEGATRON),
    "an evaluation inside of a step of the window": Silent(
        "", "warning", _evaluated, ("bridge", "maxtext", "megatron")
    ),
    "clocks that fall by 5 % in the middle of the window": Silent(
        "", "not stable", lambda m: _times(**{f"from_{39 if m.spec.window == '35-44' else 28}_to_49": 1.05})(m)
    ),
    # Fabric
    "sockets on nodes without InfiniBand": Silent(
        "", "warning",
        _line("n1:7:7 [0] NCCL INFO NET/IB : No device found.", "n1:7:7 [0] NCCL INFO Using network Socket"), MANY,
    ),
    "NVLink SHARP is not available": Silent(
        "", "warning", _line("n1:7:9 [3] NCCL WARN NVLS multicast support is not available on dev 3")
    ),
    "a variable that limits NCCL's channels": Silent(
        "nccl-limited", "warning", _line("n1:7:9 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 1.")
    ),
    "a variable that chooses NCCL's algorithm": Silent(
        "", "warning", _line("n1:7:9 [0] NCCL INFO NCCL_ALGO set by environment to Tree")
    ),
    "a completion with an error that is tried again": Silent(
        "", "warning", _inside("n1:7:99 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.7 with status=12 "
                               "vendor err 129, retrying")
    ),
    "a PCIe link with an eighth of its bandwidth": Silent(
        "", "warning",
        _line("[ 9.1] nvidia 0000:3b:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x4 link "
              "at 0000:3a:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"),
    ),
    "corrected errors of PCIe": Silent(
        "", "warning", _inside("[ 99.1] pcieport 0000:3a:01.0: AER: Corrected error received: 0000:3b:00.0")
    ),
    "UCX without a device": Silent(
        "", "warning", _line("[1716.1] [n1:7:0] parser.c:2033 UCX  WARN  network device 'mlx5_3:1' is not available, "
                             "please use one or more of: 'eth0'(tcp), 'mlx5_0:1'(ib)")
    ),
    # Nodes
    "a corrected error of the memory": Silent(
        "", "warning", _inside("[ 99.1] EDAC MC0: 12 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0")
    ),
    "a CPU that is too hot": Silent(
        "", "warning", _inside("[ 99.1] CPU12: Core temperature is above threshold, cpu clock is throttled")
    ),
    "a core that hangs": Silent(
        "node-warning", "warning", _inside("[ 99.1] watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python:812]")
    ),
    "a blocked process": Silent(
        "", "warning", _inside("[ 99.1] INFO: task python:812 blocked for more than 120 seconds.")
    ),
    "a helper that the kernel ends": Silent(
        "", "warning", _inside("[ 99.1] Memory cgroup out of memory: Killed process 812 (wandb-service)")
    ),
    "a GPU whose handle is lost": Silent(
        "", "warning", _inside("Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error")
    ),
    "a node with one GPU less than used": Silent("", "warning", _one_less, ALL),
    "another GPU among those that the rank saw": Silent("", "warning", _one_other, ALL),
    # Container
    "a driver that is older than the container": Silent(
        "old-container", "warning",
        _line("ERROR: This container was built for NVIDIA Driver Release 550.54 or later, but version 470.82 was "
              "detected and compatibility mode is UNAVAILABLE."),
    ),
    "a container without the network's driver": Silent(
        "", "warning",
        _line("NOTE: MOFED driver for multi-node communication was not detected.",
              "      Multi-node communication performance may be reduced."),
    ),
    "a version that the framework does not support": Silent(
        "", "warning",
        _line("UserWarning: Supported flash-attn versions are >= 2.1.1, <= 2.7.3. Found flash-attn 2.8.0. "
              "Flash attention is not used."),
    ),
    # Configuration
    "recompute that was not asked for": Silent(
        "", "not comparable",
        _line("WARNING: not enough memory for this batch, enabling full activation recomputation"),
    ),
    "an optimizer on the CPU": Silent(
        "", "not comparable", _line("WARNING: offloading optimizer states to CPU to fit into memory")
    ),
    "experts that drop tokens": Silent(
        "", "not comparable", _inside("WARNING: MoE capacity factor 1.0 exceeded: 23.4% of the tokens were dropped"),
        ("nemo2", "megatron"),
    ),
    "experts one after the other": Silent(
        "", "not comparable", _line("WARNING: grouped_gemm is not installed, using SequentialMLP for the experts"),
        ("nemo2", "megatron"),
    ),
    "another dispatcher of tokens": Silent(
        "", "not comparable", _line("WARNING: DeepEP is not available, falling back to the alltoall token dispatcher"),
        ("nemo2", "megatron"),
    ),
    "MXFP8 on a GPU without it": Silent(
        "", "not comparable", _line("WARNING: MXFP8 requires compute capability 10.0, using per-tensor FP8 scaling")
    ),
    "a switch that finds errors of autograd": Silent(
        "", "warning",
        _line("UserWarning: Anomaly Detection has been enabled. This mode will increase the runtime and should only "
              "be enabled for debugging."),
    ),
    "launches that wait for their end": Silent(
        "debugging", "warning", _line("WARNING: CUDA_LAUNCH_BLOCKING=1 is set, kernels are launched synchronously")
    ),
    "an allocator that is emptied": Silent(
        "", "warning",
        _inside("17 PyTorch CUDA allocator cache flushes since last step. This happens when there is high memory "
                "pressure and is detrimental to performance."),
    ),
    "XLA without the memory that it would use": Silent(
        "", "warning",
        _line("W0000 bfc_allocator.cc:290] Allocator (GPU_0_bfc) ran out of memory trying to allocate 4.00GiB. The "
              "caller indicates that this is not a failure, but this may mean that there could be performance gains "
              "if more memory were available."),
        ("maxtext",),
    ),
    "a function that is compiled again": Silent(
        "", "warning",
        _inside("V1126 10:00:00.1 7 torch/_dynamo/guards.py:2997] [0/1] [__recompiles] Recompiling function forward "
                "in /opt/model.py:12"),
        STEPS,
    ),
    # Checkpoints and restarts
    "a training that goes on from a checkpoint unasked": Silent("", "warning", _loaded(25), ("bridge",)),
    "weights of an earlier training": Silent("other-start", "warning", _loaded(0), ("bridge",)),
    "an optimizer whose state is not loaded": Silent(
        "", "warning", _line("WARNING: Unable to load optimizer from checkpoint /c/iter_0000030, using a new one"),
        STEPS,
    ),
    "workers that torchrun starts again": Silent(
        "", "invalid",
        _inside("E1126 10:00:00.1 7 torch/distributed/elastic/agent/server/api.py:881] [default] Worker group FAILED. "
                "3/3 attempts left; will restart worker group"),
    ),
    "samples that begin in the middle of the data": Silent("other-start", "warning", _consumed(1.0, more=1000), STEPS),
    "twice the samples from step 25 on": Silent("", "warning", _consumed(2.0, place=25), STEPS),
    "numbers of steps that jump by 100": Silent("", "warning", _numbers(25, 100)),
    "25 missing first steps": Silent("", "warning", _drop(*range(25))),
    # The log
    "parts of lines inside of lines": Silent("", "warning", _text(_into)),
    "a hole of zeros in the file": Silent("", "warning", _text(_hole)),
    "a line of the scheduler that ends the step": Silent(
        "", "warning", _at_last_step("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-26T10:00:00 DUE TO "
                                     "NODE n2 FAILURE ***")
    ),
    # Training
    "a loss 15 % too high": Silent(
        "", "invalid", lambda m: m.every(loss=lambda k: 1.15 * m.steps[k]["loss"]), ALL
    ),
    "two losses in turn": Silent("", "warning", lambda m: m.every(loss=lambda k: (11.0, 10.9)[k % 2])),
    "ten losses again and again": Silent(
        "", "warning", lambda m: m.every(loss=lambda k: m.steps[0]["loss"] - 0.02 * (k % 10))
    ),
    "gradients that are all 1, the bound of their norm": Silent(
        "", "warning", lambda m: m.every(grad=1.0), MEGATRON
    ),
    "a loss scale that is not a number": Silent("", "warning", _from(20, scale=math.nan), MEGATRON),
    "steps that are skipped in turn": Silent(
        "", "warning", lambda m: [m.at(k, skipped=1) for k in range(1, 50, 2)], MEGATRON
    ),
    "a straggler in other words": Silent(
        "", "warning", _inside("WARNING: rank 3 (n1) is 38 % slower than the median of all ranks")
    ),
    "steps of the window of which half are outside": Silent(
        "", "warning", _pause(*range(2, 50, 2), steps=0.15)
    ),
    "an evaluation that ends the log": Silent(
        "", "warning",
        lambda m: m.inside.update({len(m.steps) - 1: [f"{ABSL}Completed eval after train step 50, loss=nan"]}),
        ("maxtext",),
    ),
}  # fmt: skip

FIRST_RIGHT = 64
"""Number of cases that were right at the first try."""

STILL: dict[str, tuple[str, ...]] = {
    "recompute that was not asked for": ("bridge", "nemo2", "maxtext", "megatron"),
    "an optimizer on the CPU": ("bridge", "nemo2", "maxtext", "megatron"),
    "experts that drop tokens": ("nemo2", "megatron"),
    "sockets on nodes without InfiniBand": MANY,
    "a function that is compiled again": ("bridge", "nemo2", "megatron"),
    "a worker of the data loader that is started again": ("bridge", "nemo2", "maxtext", "megatron"),
    "ten times that are printed again and again": ("bridge", "nemo2", "maxtext", "megatron"),
    "times with a separator of thousands": ("megatron",),
    "samples that begin in the middle of the data": ("megatron",),
    "25 missing first steps": ("megatron",),
    "parts of lines inside of lines": ("bridge", "nemo2", "maxtext", "megatron"),
    "a line of the scheduler that ends the step": ("bridge", "nemo2", "maxtext", "megatron"),
    "a loss 15 % too high": ("bridge", "nemo2", "maxtext"),
    "a loss scale that is not a number": ("bridge", "megatron"),
}
"""The faults that still pass in silence, each with the formats in which they do."""
