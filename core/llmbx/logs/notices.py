"""What a log says about how a training ran, as data: the lines, what they mean, and what the user can do.

They are a part of the table of signatures (`signature_table`) and of docs/checks.md. None of them is a failure.
Sources: the messages of PyTorch, NCCL, XLA, numactl, the kernel, and of NVIDIA's kernels and resiliency extension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ..model.evidence import Effect

_LESS = r"(?:not (?:installed|available|supported|found)|unavailable|unsupported|disabled|[Dd]isabling|[Ff]alling back)"


@dataclass(frozen=True, slots=True)
class Notice:
    """A kind of event that is no failure by itself: the check that finds it, its effect on the run, what it means and
    what to do, and the patterns of its lines.

    `usual_on_cpu`: a CPU has no other way. A run that fails after a `precursor` may have failed by it; `elsewhere` is
    whether a retry on other nodes makes sense then.
    """

    check: str
    effect: Effect
    means: str
    do: str
    patterns: tuple[str, ...]
    usual_on_cpu: bool = False
    role: Literal["notice", "precursor"] = "notice"
    elsewhere: bool = False

    @property
    def event(self) -> str:
        """The kind of its events."""
        return self.check.replace("-", "_")


INFINIBAND = "infiniband"
"""Kind of the event of a line that shows that NCCL found InfiniBand."""

IMAGE = "Use an image that has it, or compare with runs that lack it, too."
NODE = "Check the node before the next run (`nvidia-smi -q`, `dmesg`)."

NOTICES = (
    Notice(
        "dtype-fallback", "not comparable", "Another data type than the one asked for computes.", IMAGE,
        (rf"\b(?:FP8|fp8|NVFP4|nvfp4)\b.{{0,80}}{_LESS}",
         r"[Ff]alling back to (?:BF16|bf16|FP16|fp16|FP32|fp32|higher precision)"),
        usual_on_cpu=True,
    ),
    Notice(
        "kernel-fallback", "not comparable", "The fused kernels of the framework are missing: it is slower.", IMAGE,
        (rf"(?:[Tt]ransformer[ _-]?[Ee]ngine\b|\bTE ).{{0,60}}{_LESS}",
         rf"[Ff]used .{{0,40}}kernels?\b.{{0,40}}{_LESS}", rf"gradient_accumulation_fusion.{{0,40}}{_LESS}"),
        usual_on_cpu=True,
    ),
    Notice(
        "attention-fallback", "not comparable", "Attention is computed without a fused kernel.", IMAGE,
        (r"[Ff]lash.?[Aa]ttention.{0,60}(?:unavailable|not available|not supported).{0,60}[Ff]alling back",
         r"UnfusedDotProductAttention backend", r"[Ff]alling back to (?:unfused|math|eager|naive) attention"),
        usual_on_cpu=True,
    ),
    Notice(
        "graph-fallback", "not comparable", "CUDA graphs are not used: the CPU launches each kernel.",
        "Look at the line for what cannot be captured.",
        (r"(?:CUDA|[Cc]uda|GPU|gpu|HIP)[ _]?[Gg]raphs?\b.{0,60}(?:failed|not supported|[Dd]isabl|[Ff]alling back)",
         r"[Ff]ailed to (?:capture|instantiate|create) (?:a )?(?:CUDA|cuda|GPU|gpu) graph", r"without CUDA graphs",
         r"skipping cudagraphs due to"),
        usual_on_cpu=True,
    ),
    Notice(
        "compile-fallback", "not comparable", "torch.compile gave up: parts run as they are written.",
        "Look at the line for what cannot be compiled.",
        (r"hit config\.\w{0,20}(?:recompile|cache_size)_limit",
         r"torch\.compile.{0,60}(?:failed|[Dd]isabl|[Ff]alling back)", r"[Ff]alling back to eager"),
        usual_on_cpu=True,
    ),
    Notice(
        "overlap-off", "not comparable", "Communication is not hidden behind computation.",
        "Check the parallelism that the overlap needs.",
        (r"[Dd]isabl(?:ing|ed) .{0,40}comm\w{0,10}.{0,10}overlap", r"overlap.{0,60}not supported.{0,40}[Dd]isabl"),
    ),
    Notice(
        "other-data", "not comparable", "The data set is missing: made-up data has another loss, and no reading.",
        "Check the path of the data set.",
        (r"(?:not found|not set|missing|empty).{0,60}(?:using|use) (?:mock|synthetic|dummy|random) data",
         r"(?:mock|synthetic|dummy) data instead"),
    ),
    Notice(
        "socket-transport", "not comparable", "NCCL uses TCP sockets, although the node has InfiniBand.",
        "Check NCCL_IB_HCA, NCCL_NET and the container's devices.",
        (r"Using network Socket", r"(?:NCCL|nccl).{0,60}(?:not available|unavailable|not found).{0,60}gloo",
         r"[Ff]alling back to gloo"),
        usual_on_cpu=True,
    ),
    Notice(
        INFINIBAND, "warning", "NCCL found InfiniBand.", "", (r"NET/IB : Using \[0\]",),
    ),
    Notice(
        "gdr-off", "warning", "The network card does not read GPU memory: data takes a way through the CPU.",
        "Load nvidia-peermem, and check NCCL_NET_GDR_LEVEL.", (r"GPU ?Direct RDMA [Dd]isabled",),
    ),
    Notice(
        "p2p-off", "warning", "The GPUs of a node do not read each other's memory.",
        "Unset NCCL_P2P_DISABLE; check the topology with `nvidia-smi topo -m`.",
        (r"NCCL_P2P_DISABLE set by environment to 1", r"P2P is disabled between"),
    ),
    Notice(
        "cpu-fallback", "not comparable", "JAX computes on the CPU.", "Install the jaxlib for the GPU.",
        (r"[Ff]alling back to cpu\b", r"No GPU/TPU found"), usual_on_cpu=True,
    ),
    Notice(
        "profile-rejected", "not comparable", "XLA does not use the PGLE profile: its schedule is another one.",
        "Collect the profile again with this version and configuration.",
        (r"\.cc:\d+\] .{0,80}PGLE.{0,80}(?:reject|not applicable|mismatch|ignor|stale|[Ff]ailed|could not)",
         r"[Uu]nable to parse FDO profile"),
    ),
    Notice(
        "autotune-fallback", "warning", "XLA could not choose a kernel by measuring: another one may be faster.",
        "Use another version of the image.",
        (r"[Ff]ailed to autotune", r"[Aa]utotuning failed", r"falling back to cuBLAS"), usual_on_cpu=True,
    ),
    Notice(
        "memory-tight", "warning", "XLA computes parts twice, and still needs more memory than it wants.",
        "Use a smaller micro batch or more GPUs.", (r"Can't reduce memory use below .{1,40} by rematerialization",),
    ),
    Notice(
        "gpu-warning", "warning", "The driver or a switch reports a fault of a GPU that the run survived.", NODE,
        (r"NVRM: Xid", r"\bSXid\b", r"[Rr]ow.?[Rr]emap.{0,80}(?:pending|[Ff]ail)",
         r"[Rr]ow remapping is pending"),
        role="precursor",
    ),
    Notice(
        "network-warning", "warning", "A port or link failed or came back while the training ran.",
        "Check the link (`ibstat`, `dmesg`) before the next run.",
        (r"async event ?: .{0,60}(?:error|fatal|down|port active)", r"\bport error\b",
         r"[Ll]ink (?:down|DOWN|is down)\b"),
        role="precursor", elsewhere=True,
    ),
    Notice(
        "collective-retried", "warning", "A collective was tried again: the network or a rank is slow.",
        "Look for the rank and its link.",
        (r"[Rr]etrying (?:the )?(?:collective|all)",
         r"(?:collective|ALLREDUCE|AllReduce|AllGather)\b.{0,80}\bretr(?:y|ied|ying)\b"),
    ),
    Notice(
        "restarted-inside", "invalid", "The processes restarted the training in themselves: the steps are of several "
        "trainings.", "Find out what ended the first one.",
        (r"[Ii]n-?process (?:[Rr]estart|[Ww]rapper)\W.{0,60}(?:iteration|attempt) [1-9]",
         r"[Rr]estarting .{0,30}in-?process"),
    ),
    Notice(
        "straggler", "warning", "The framework reports ranks that are slower than the others.",
        "Check the GPU and the node of these ranks.", (r"STRAGGLER DETECTION WARNING", r"[Ss]tragglers? detected"),
    ),
    Notice(
        "throttled", "warning", "A GPU lowered its clock.", "Check temperature and power of the node.",
        (r"Slowdown *: Active", r"[Tt]hermal throttling"),
    ),
    Notice(
        "numa-unbound", "warning", "Ranks are not bound to the CPU cores beside their GPU.",
        "Check the binding of the recipe and the cores of the job.",
        (r"libnuma: Warning", r"numactl: .{0,60}(?:out of range|failed|not permitted)", r"without NUMA binding"),
    ),
)  # fmt: skip
"""All notices, in the order in which their patterns are tried, after the failures."""
