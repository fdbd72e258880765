"""Faults that passed without a word: what is changed in a clean training, and what must come of it.

The list was written before the checks that find them. The checks were written for every second fault (`developed`); the
others were put aside, and tried when the checks were done. docs/faults.md has the counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Literal

from .faults import ALL, _nodes
from .made_log import ABSL, Made
from .made_run import GPUS

LOGS = (*ALL, "megatron")
"""The formats of runs, and a log of Megatron-LM that no run of llmbx wrote."""

MEGATRON = ("bridge", "megatron")
STEPS = ("bridge", "nemo2", "megatron")
MANY = ("nemo2", "maxtext")
"""The formats whose training has several nodes."""

Verdict = Literal["invalid", "not comparable", "warning", "not stable"]


@dataclasses.dataclass(frozen=True)
class Silent:
    """The check that finds a fault (none: the stability does), its right verdict, how it is put into a training, and
    the formats that can show it.
    """

    check: str
    verdict: Verdict
    change: Callable[[Made], object]
    formats: tuple[str, ...] = LOGS
    stays: str = ""
    """Why it is still not found, if it is not."""


def _usual(log: Made) -> float:
    return float(log.steps[20]["time"])


def _pause(*places: int, steps: float) -> Callable[[Made], None]:
    """Let the time of some steps pass before the lines at these places are printed, in no step."""

    def change(log: Made) -> None:
        for place in places:
            for step in log.steps[place:]:
                log.arrivals[step["number"]] += steps * _usual(log)

    return change


def _said(line: dict[str, str], *places: int, steps: float) -> Callable[[Made], object]:
    """The same, with a line before the pause that says what it was."""

    def change(log: Made) -> None:
        _pause(*places, steps=steps)(log)
        kind = {"nemo2": "nemo2", "maxtext-2024.12": "maxtext"}.get(log.spec.driver, "bridge")
        if kind in line:
            log.inside.update({place - 1: [line[kind].format(place)] for place in places})

    return change


def _claims(factor: float) -> Callable[[Made], None]:
    """Every step claims to be longer than it was."""

    def change(log: Made) -> None:
        log.every(time=lambda k: factor * log.steps[k]["time"])

    return change


def _times(**ranges: float) -> Callable[[Made], None]:
    """The times of the steps a-b (names `from_a_to_b`) are longer by a factor, also by the clock."""

    def change(log: Made) -> None:
        for name, factor in ranges.items():
            first, last = (int(part) for part in name.removeprefix("from_").split("_to_"))
            for step in log.steps[first : last + 1]:
                step["time"] *= factor
        now = 1.7e9
        for step in log.steps:
            now += step["time"]
            log.arrivals[step["number"]] = now

    return change


def _warm(size: float, tau: float) -> Callable[[Made], None]:
    """A warm-up that ends slowly: the first step has this much too much, and every `tau` steps an e-th of it."""
    return lambda log: _times(**{f"from_{k}_to_{k}": 1 + size * math.exp(-k / tau) for k in range(50)})(log)


def _from(place: int, **values: object) -> Callable[[Made], object]:
    """The steps from this place on have these values; a function gets the place."""
    return lambda log: [
        log.at(k, **{name: value(k) if callable(value) else value for name, value in values.items()})
        for k in range(place, len(log.steps))
    ]


def _loss(factor: Callable[[int], float]) -> Callable[[Made], object]:
    return lambda log: log.every(loss=lambda k: log.steps[k]["loss"] * factor(k))


def _grad(value: Callable[[int], float]) -> Callable[[Made], object]:
    return lambda log: log.every(grad=value)


def _falling(k: int) -> float:
    return 3.0 / (k + 1) + 0.5


def _line(*lines: str) -> Callable[[Made], object]:
    return lambda log: log.before.extend(lines)


def _inside(line: str) -> Callable[[Made], object]:
    return lambda log: log.inside.update({25: [line]})


def _drop(*places: int) -> Callable[[Made], object]:
    return lambda log: setattr(log, "steps", [s for k, s in enumerate(log.steps) if k not in places])


def _stamped(shift: float) -> Callable[[Made], None]:
    """The lines have the time of another clock."""

    def change(log: Made) -> None:
        for step in log.steps:
            step["at"] = log.arrivals[step["number"]] + shift

    return change


def _again(log: Made) -> None:
    """The log of a finished training, and a second training in the same file."""
    twins = [dict(step) for step in log.steps]
    begun = max(log.arrivals.values()) + 60
    for step in (*twins, *log.steps):
        step["at"] = log.arrivals[step["number"]]
    for step in log.steps:
        step["at"] += begun - 1.7e9
    log.steps = [*twins, *log.steps]
    log.arrivals = {}


def _comma(field: str) -> Callable[[Made], object]:
    return lambda log: setattr(log, "commas", field)


def _facts(*names: str, first: bool = True, **values: str) -> Callable[[Made], object]:
    """The first node (or all but the first) states these facts beside its GPUs; others have `names`."""

    def change(log: Made) -> None:
        _nodes(log)
        count = len(log.nodes)
        log.hosts = [{} for _ in range(count)]
        usual = dict(name.split("=") for name in names)
        for number in range(count):
            log.hosts[number] = dict(values) if (number == 0) == first else usual

    return change


def _every_node(**values: str) -> Callable[[Made], object]:
    """Every GPU of every node answers so."""

    def change(log: Made) -> None:
        _nodes(log, **values)
        log.nodes = [[log.nodes[-1][-1]] * log.spec.gpus_per_node for _ in range(log.spec.nodes)]

    return change


def _seen(pattern: str) -> Callable[[Made], object]:
    return lambda log: setattr(log, "seen", [pattern.format(GPUS[log.spec.gpu_type])] * 8)


def _flops(value: float) -> Callable[[Made], object]:
    return lambda log: setattr(log, "flops", value)


def _more_gpus(log: Made) -> None:
    _nodes(log)
    log.nodes = [gpus * 2 for gpus in log.nodes]


SAVED = {
    "bridge": "  successfully saved checkpoint from iteration {:7d} to /c [ t 1/1, p 1/1 ]",
    "nemo2": "Global Checkpoint Save : Rank : 0 : Iteration : {} : Start time : 1s : Save duration : 9.0s",
}
EVALUATED = {
    "bridge": " validation loss at iteration {} | lm loss value: 5.000000E+00 | lm loss PPL: 1.484132E+02 | ",
    "maxtext": f"{ABSL}Completed eval after train step {{}}, loss=5.000, perplexity=1.000, total_weights=4",
}
HIGH = {name: line.replace("5.0", "45.0") for name, line in EVALUATED.items()}
SOCKETS = (
    "n1:7:7 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB",
    "n1:7:7 [0] NCCL INFO Using network Socket",
)

SILENT: dict[str, Silent] = {
    # Time outside of the steps
    "a stall of 6 steps in a window of 10": Silent("outside-steps", "not comparable", _pause(39, steps=6), MEGATRON),
    "a stall of 1 step in a window of 10": Silent("outside-steps", "warning", _pause(39, steps=1), MEGATRON),
    "a pause of 20 steps before the window": Silent("outside-steps", "not comparable", _pause(8, steps=20)),
    "a pause of 4 steps before the window": Silent("outside-steps", "warning", _pause(8, steps=4)),
    "a pause of 20 steps after the window": Silent("outside-steps", "not comparable", _pause(46, steps=20)),
    "three pauses of a step before the window": Silent("outside-steps", "warning", _pause(12, 22, 31, steps=1.2)),
    "a checkpoint longer than a third of the window": Silent(
        "outside-steps", "not comparable", _said(SAVED, 40, steps=4), MEGATRON
    ),
    "a checkpoint of 5 steps": Silent("outside-steps", "warning", _said(SAVED, 26, steps=5), STEPS),
    "an evaluation every 10 steps": Silent(
        "outside-steps", "warning", _said(EVALUATED, 10, 20, 30, 40, steps=1.2), ("bridge", "maxtext", "megatron")
    ),
    "an evaluation every 3 steps": Silent(
        "outside-steps",
        "not comparable",
        _said(EVALUATED, *range(3, 48, 3), steps=1.2),
        ("bridge", "maxtext", "megatron"),
    ),
    "8 % of every step outside": Silent("outside-steps", "warning", _pause(*range(1, 50), steps=0.08)),
    "30 % of every step outside": Silent("outside-steps", "not comparable", _pause(*range(1, 50), steps=0.3)),
    "45 % of every step outside": Silent("outside-steps", "not comparable", _pause(*range(1, 50), steps=0.8)),
    "a compilation in the middle": Silent("outside-steps", "warning", _pause(30, steps=7)),
    "a garbage collection every 5 steps": Silent("outside-steps", "warning", _pause(*range(5, 50, 5), steps=0.5)),
    "a data loader that stalls every 7 steps": Silent(
        "outside-steps", "not comparable", _pause(*range(7, 50, 7), steps=3)
    ),
    "times in whole seconds": Silent(
        "rounded-times", "warning", lambda m: m.every(time=lambda k: float(round(m.steps[k]["time"])))
    ),
    "claims 9 % above the clock": Silent("clock-beyond", "not comparable", _claims(1.09)),
    "claims 6 % above the clock": Silent("clock-beyond", "warning", _claims(1.06)),
    "times that are all the same": Silent("equal-times", "warning", lambda m: m.every(time=_usual(m))),
    # Training
    "a loss frozen from step 20 on": Silent("loss-frozen", "invalid", _from(20, loss=7.125)),
    "a loss frozen from step 35 on": Silent("loss-frozen", "invalid", _from(35, loss=7.125)),
    "a loss frozen for 20 steps": Silent(
        "loss-frozen", "invalid", lambda m: [m.at(k, loss=9.125) for k in range(15, 35)]
    ),
    "a learning rate of 0 from step 20 on": Silent(
        "rate-stops", "invalid", lambda m: [m.every(lr=1e-5), _from(20, lr=0.0)(m)]
    ),
    "a learning rate of 0 from step 40 on": Silent(
        "rate-stops", "warning", lambda m: [m.every(lr=1e-5), _from(40, lr=0.0)(m)]
    ),
    "a learning rate of 0 in the middle": Silent(
        "rate-stops", "warning", lambda m: [m.every(lr=1e-5), m.at(25, lr=0.0), m.at(26, lr=0.0)]
    ),
    "a gradient of 0 from step 20 on": Silent(
        "gradient-stops", "invalid", lambda m: [m.every(grad=_falling), _from(20, grad=0.0)(m)]
    ),
    "a gradient of 0 in three steps": Silent(
        "gradient-stops", "warning", lambda m: [m.every(grad=_falling), *(m.at(k, grad=0.0) for k in (30, 31, 32))]
    ),
    "a gradient of 1e8 from step 20 on": Silent(
        "gradient-explodes", "invalid", lambda m: [m.every(grad=_falling), _from(20, grad=1e8)(m)]
    ),
    "a gradient of 1e8 once": Silent(
        "gradient-explodes", "warning", lambda m: [m.every(grad=_falling), m.at(30, grad=1e8)]
    ),
    "a gradient that explodes": Silent("gradient-explodes", "invalid", _grad(lambda k: 1.5**k)),
    "a gradient that is always the same": Silent("gradient-frozen", "warning", _grad(lambda k: 1.234)),
    "a gradient frozen from step 20 on": Silent(
        "gradient-frozen", "invalid", lambda m: [m.every(grad=_falling), _from(20, grad=1.234)(m)]
    ),
    "a loss scale of 0 from step 20 on": Silent("loss-scale", "invalid", _from(20, scale=0.0), MEGATRON),
    "a loss scale that halves every step": Silent(
        "loss-scale", "warning", _from(5, scale=lambda k: 2.0 ** (60 - k)), MEGATRON
    ),
    "a spike of 4 times": Silent("loss-spike", "warning", _loss(lambda k: 4.0 if k == 30 else 1.0)),
    "a spike of 2 times over 3 steps": Silent(
        "loss-spike", "warning", _loss(lambda k: 2.0 if k in (30, 31, 32) else 1.0)
    ),
    "a loss in bits": Silent("loss-start", "invalid", _loss(lambda k: 1.4427), ALL),
    "a loss with a wrong mask": Silent("loss-start", "invalid", _loss(lambda k: 0.75), ALL),
    "a loss 35 % too high": Silent("loss-start", "invalid", _loss(lambda k: 1.35), ALL),
    "a loss 12 % too low": Silent("loss-start", "invalid", _loss(lambda k: 0.88), ALL),
    "weights that are reset at step 30": Silent(
        "loss-jump", "warning", lambda m: m.every(loss=lambda k: m.steps[0]["loss"] - 0.12 * (k % 30))
    ),
    "a loss that drops by 30 % at step 30": Silent("loss-jump", "warning", _loss(lambda k: 0.7 if k >= 30 else 1.0)),
    "a loss that jumps by 25 % at step 30": Silent("loss-rising", "invalid", _loss(lambda k: 1.25 if k >= 30 else 1.0)),
    "a loss that alternates by 10 %": Silent("loss-scatter", "warning", _loss(lambda k: 1.1 if k % 2 else 1.0)),
    "a loss that scatters from step 25 on": Silent(
        "loss-scatter", "warning", _loss(lambda k: 1 + 0.15 * math.sin(37 * k) if k >= 25 else 1.0)
    ),
    "most steps skipped": Silent(
        "mostly-skipped", "not comparable", lambda m: [m.at(k, skipped=1) for k in range(30)], MEGATRON
    ),
    "steps skipped at the end": Silent("window-share", "invalid", _from(40, skipped=1), MEGATRON),
    "a learning rate that jumps a thousand times": Silent(
        "rate-odd", "warning", lambda m: [m.every(lr=1e-5), _from(25, lr=1e-2)(m)]
    ),
    "a learning rate of 1e-30": Silent("rate-odd", "warning", lambda m: m.every(lr=1e-30)),
    "a validation loss of 4 times the training's": Silent(
        "validation-high", "warning", _said(HIGH, 26, steps=0), ("bridge", "maxtext", "megatron")
    ),
    "every loss printed twice": Silent(
        "loss-twice", "warning", lambda m: m.every(loss=lambda k: m.steps[k - k % 2]["loss"])
    ),
    # What the log says
    "FP8 falls back": Silent(
        "dtype-fallback", "not comparable", _line("WARNING: FP8 is not supported on this device, falling back to BF16")
    ),
    "Transformer Engine is missing": Silent(
        "kernel-fallback",
        "not comparable",
        _line("WARNING: Transformer Engine is not installed. Falling back to the local implementation."),
    ),
    "CUDA graphs are off": Silent(
        "graph-fallback",
        "not comparable",
        _line("[W1126 graphs.py:12] CUDA graph capture failed, running without CUDA graphs"),
    ),
    "torch.compile gives up": Silent(
        "compile-fallback",
        "not comparable",
        _line(
            "W1126 10:00:00.1 7 torch/_dynamo/convert_frame.py:906] [7/8] torch._dynamo hit config.recompile_limit (8)"
        ),
    ),
    "Inductor falls back": Silent(
        "compile-fallback", "not comparable", _line("UserWarning: torch.compile failed, falling back to eager mode")
    ),
    "attention without flash": Silent(
        "attention-fallback",
        "not comparable",
        _line(
            "DEBUG:DotProductAttention: Running with "
            "UnfusedDotProductAttention backend; Disabling FlashAttention as "
            "flash-attn is not installed"
        ),
    ),
    "no cuDNN attention": Silent(
        "attention-fallback",
        "not comparable",
        _line("UserWarning: cuDNN flash attention is not available, falling back to unfused attention"),
    ),
    "mock data in place of the data set": Silent(
        "other-data", "not comparable", _line("WARNING: data path /data/c4 not found, using mock data instead")
    ),
    "fused kernels are missing": Silent(
        "kernel-fallback",
        "not comparable",
        _line(
            "WARNING: fused softmax kernel is not available, using the torch "
            "implementation; gradient_accumulation_fusion is disabled"
        ),
    ),
    "communication without overlap": Silent(
        "overlap-off",
        "not comparable",
        _line("UserWarning: Disabling tensor parallel communication overlap due to sequence_parallel=False"),
    ),
    "NCCL over sockets beside InfiniBand": Silent(
        "socket-transport", "not comparable", _line(*SOCKETS), (*MANY, "megatron")
    ),
    "NCCL without GPUDirect": Silent(
        "gdr-off",
        "warning",
        _line("n1:7:9 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"),
        (*MANY, "megatron"),
    ),
    "NCCL without P2P": Silent(
        "p2p-off", "warning", _line("n1:7:9 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1")
    ),
    "gloo in place of NCCL": Silent(
        "socket-transport", "not comparable", _line("WARNING: NCCL is not available, falling back to gloo")
    ),
    "a correctable SXid": Silent(
        "gpu-warning",
        "warning",
        _inside(
            "[ 99.1] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error"
        ),
    ),
    "off the bus in the kernel's words": Silent(
        "failure-inside", "warning", _inside("[ 1234.5] NVRM: GPU at PCI:0000:3b:00: GPU has fallen off the bus.")
    ),
    "a pending row remap": Silent(
        "gpu-warning",
        "warning",
        _inside("[ 77.1] NVRM: GPU0 RmCheckRowRemap: A row remapping is pending for GPU 0000:3b:00.0"),
    ),
    "a link that goes down": Silent(
        "network-warning", "warning", _inside("[ 55.1] mlx5_core 0000:5e:00.0: mlx5_0: Port: 1 Link DOWN")
    ),
    "a link that flaps": Silent(
        "network-warning", "warning", _inside("n1:7:99 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port active")
    ),
    "a collective that is retried": Silent(
        "collective-retried",
        "warning",
        _inside("[rank0]: collective AllReduce timed out after 30 s, retrying the collective (attempt 1 of 3)"),
    ),
    "a restart inside the process": Silent(
        "restarted-inside",
        "invalid",
        _inside("[nvrx] 2026-11-26 10:00:00 inprocess restart: iteration 1, active ranks 8, resuming"),
    ),
    "a PGLE profile that XLA rejects": Silent(
        "profile-rejected",
        "not comparable",
        _line(
            "W0000 gpu_hlo_schedule.cc:500] PGLE profile is not applicable to "
            "this module: fingerprint mismatch, ignoring the profile"
        ),
        ("maxtext",),
    ),
    "a straggler report": Silent(
        "straggler",
        "warning",
        _inside(
            "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance: {StragglerId(rank=3, node='n1')}"
        ),
    ),
    "a thermal slowdown": Silent(
        "throttled", "warning", _inside("nvidia-smi: clocks throttle reasons: HW Thermal Slowdown: Active")
    ),
    "a CPU backend of JAX": Silent(
        "cpu-fallback",
        "not comparable",
        _line(
            "WARNING:jax._src.xla_bridge:An NVIDIA GPU may be present on this "
            "machine, but a CUDA-enabled jaxlib is not installed. Falling back "
            "to cpu."
        ),
        ("maxtext",),
    ),
    "XLA without command buffers": Silent(
        "graph-fallback",
        "not comparable",
        _line("W0000 command_buffer.cc:9] Failed to instantiate CUDA graph, falling back to op-by-op launch"),
        ("maxtext",),
    ),
    "XLA autotuning that fails": Silent(
        "autotune-fallback",
        "warning",
        _line("W0000 gemm_fusion_autotuner.cc:9] Failed to autotune fusion, falling back to cuBLAS"),
        ("maxtext",),
    ),
    "XLA over its memory": Silent(
        "memory-tight",
        "warning",
        _line(
            "W0000 hlo_rematerialization.cc:9] Can't reduce memory use below "
            "70.00GiB by rematerialization; only reduced to 81.00GiB"
        ),
        ("maxtext",),
    ),
    "ranks that are not bound to their NUMA node": Silent(
        "numa-unbound",
        "warning",
        _line("numactl: libnuma: Warning: cpu argument 0-15 is out of range; running without NUMA binding"),
    ),
    # Hardware
    "a MIG slice that the rank saw": Silent("gpu-type", "not comparable", _seen("{} MIG 1g.10gb"), ALL),
    "MIG slices on every node": Silent(
        "gpu-type", "not comparable", lambda m: _every_node(name=GPUS[m.spec.gpu_type] + " MIG 3g.40gb")(m), ALL
    ),
    "a vGPU that the rank saw": Silent("gpu-type", "not comparable", _seen("GRID {}"), ALL),
    "vGPUs on every node": Silent(
        "gpu-type",
        "not comparable",
        lambda m: _every_node(name={"b200": "NVIDIA B200-90C", "h100": "NVIDIA H100-40C"}[m.spec.gpu_type])(m),
        ALL,
    ),
    "two nodes that are the same host": Silent("same-host", "invalid", _facts("hostname=n7", hostname="n7"), MANY),
    "another memory clock on the last node": Silent("gpu-mixed", "warning", lambda m: _nodes(m, memory="1593"), ALL),
    "a power limit above the default on the last node": Silent(
        "gpu-mixed", "warning", lambda m: _nodes(m, power="750.00", default_power="750.00"), ALL
    ),
    "power limits that differ without a default": Silent(
        "gpu-mixed", "warning", lambda m: _nodes(m, power="600.00", default_power="[N/A]"), ALL
    ),
    "a lowered power limit on every node": Silent("gpu-power", "not comparable", _every_node(power="450.00"), ALL),
    "an application clock above the default on the last node": Silent(
        "gpu-mixed", "warning", lambda m: _nodes(m, clock="2010", default_clock="2010"), ALL
    ),
    "a lowered application clock on every node": Silent("gpu-clock", "not comparable", _every_node(clock="1410"), ALL),
    "twice as many GPUs in a node as are used": Silent("gpu-unused", "warning", _more_gpus, ALL),
    "another CPU on a node": Silent("node-mixed", "warning", _facts("cpu=AMD EPYC 9654", cpu="Intel Xeon 8480C"), MANY),
    "half of the cores on a node": Silent("node-mixed", "warning", _facts("cores=192", cores="96"), MANY),
    "another kernel on a node": Silent("node-mixed", "warning", _facts("kernel=6.8.0-40", kernel="5.15.0-91"), MANY),
    "no NUMA binding on a node": Silent(
        "node-mixed", "warning", _facts("numa=GPU", numa="off: numactl is missing"), MANY
    ),
    # Beginning and end
    "the first 10 steps are rotated away": Silent("first-lines", "warning", _drop(*range(10)), ALL),
    "the first step is rotated away": Silent("first-lines", "warning", _drop(0), ALL),
    "the log of the day before": Silent("other-run", "invalid", _stamped(-86400.0), ("bridge", "maxtext")),
    "the log of three hours before": Silent(
        "other-run",
        "invalid",
        _stamped(-10000.0),
        ("bridge", "maxtext"),
    ),
    "a log from after the run": Silent("other-run", "invalid", _stamped(3e6), ("bridge", "maxtext")),
    "a second training in a finished log": Silent("restarted", "invalid", _again, ALL),
    "times with a decimal comma": Silent("decimal-comma", "invalid", _comma("time"), ALL),
    "losses with a decimal comma": Silent("decimal-comma", "invalid", _comma("loss"), ALL),
    "gradients with a decimal comma": Silent(
        "decimal-comma", "warning", lambda m: [m.every(grad=_falling), _comma("grad")(m)], ALL
    ),
    # The whole run
    "twice as slow before the window": Silent("whole-run", "warning", _times(from_3_to_30=2.0), MEGATRON),
    "twice as slow after the window": Silent("whole-run", "warning", _times(from_45_to_49=2.0), LOGS),
    "a window that is 30 % faster than the rest": Silent(
        "whole-run",
        "warning",
        lambda m: _times(**({"from_34_to_43": 0.7} if m.spec.window == "35-44" else {"from_11_to_44": 0.7}))(m),
    ),
    "half of the steps outside of the window twice as slow": Silent(
        "whole-run", "warning", lambda m: _times(**{f"from_{k}_to_{k}": 2.0 for k in range(3, 33, 2)})(m), MEGATRON
    ),
    "20 % slower before the window": Silent("whole-run", "warning", _times(from_3_to_32=1.2), MEGATRON),
    "a warm-up of 15 steps that ends in the window": Silent("", "not stable", _warm(0.4, 15.0)),
    "a warm-up of 25 steps that ends in the window": Silent("", "not stable", _warm(0.3, 25.0)),
    # Plugins
    "FLOPs of -1": Silent("plugin-value", "invalid", _flops(-1.0), ALL),
    "FLOPs of nan": Silent("plugin-value", "invalid", _flops(math.nan), ALL),
    "FLOPs of 0": Silent("plugin-value", "invalid", _flops(0.0), ALL),
    "FLOPs of 1000 times the truth": Silent("over-peak", "invalid", _flops(1e20), ALL),
    "steps of a microsecond": Silent("too-fast", "invalid", lambda m: m.every(time=1e-6), ("nemo2", "bridge")),
}


BEFORE: dict[str, tuple[str, ...]] = {
    "a loss that jumps by 25 % at step 30": LOGS,
    "steps skipped at the end": MEGATRON,
    "a correctable SXid": LOGS,
    "off the bus in the kernel's words": LOGS,
    "vGPUs on every node": MANY,
    "a lowered power limit on every node": ALL,
    "a lowered application clock on every node": ALL,
    "a second training in a finished log": ALL,
    "losses with a decimal comma": ALL,
    "gradients with a decimal comma": ("bridge",),
    "a warm-up of 15 steps that ends in the window": LOGS,
    "a warm-up of 25 steps that ends in the window": LOGS,
    "FLOPs of 1000 times the truth": ALL,
    "steps of a microsecond": ("nemo2", "bridge"),
}
"""The faults with the right verdict before these checks, each with the formats in which it was right."""

SILENT_BEFORE = 339
"""Number of cases (a fault in a format) that passed without a word before."""


def developed(name: str) -> bool:
    """Whether the checks were written with this fault known; the others were tried at the end."""
    return list(SILENT).index(name) % 2 == 0


def verdicts(outcomes: Sequence[tuple[str, str]], stability: str | None) -> set[str]:
    """The verdicts that a result has: the effects of its checks (name, effect), and whether it is called stable."""
    effects = {effect for _, effect in outcomes if effect != "not possible"}
    return effects | ({"not stable"} if stability not in (None, "stable") else set())
