"""Rates of GPU types: peak, memory bandwidth, NVLink and network, as the analytical terms need them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

from llmbx.api import GpuType, UsageError, Value, did_you_mean, read_toml

LOW = {"fp8": "fp8", "mxfp8": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp4"}
"""Dtypes of matrix products narrower than 16 bits, with the peak they have."""
WIDE = ("bf16", "fp16")


class Rates(Value, frozen=True):
    """Rates of one GPU: bandwidths in GB/s and one direction, `domain` the number of GPUs that NVLink connects.

    `peaks` are dense TFLOP/s by dtype; those that core has replace them. `exponential` is the number of BF16
    operations of matrix products in the time of one exponential; None if it is not known.
    """

    memory: float
    link: float
    network: float
    source: str
    domain: int | None = None
    peaks: dict[str, float] = {}
    memory_gb: float | None = None
    exponential: float | None = None

    def peak(self, dtype: str) -> float:
        """Dense TFLOP/s of matrix products in this dtype. Raises `UsageError` if it is not known."""
        name = LOW.get(dtype, "bf16" if dtype in WIDE else dtype)
        if name not in self.peaks:
            raise UsageError(f"no {dtype} peak is known for this GPU type; known: {', '.join(self.peaks) or 'none'}")
        return self.peaks[name]


def rates(gpu_type: str) -> Rates:
    """The rates of a GPU type. Raises `UsageError` with a suggestion if they are not known."""
    entry = known().get(gpu_type)
    if entry is None and gpu_type in GpuType.extend({}):
        types = ", ".join(sorted(known()))
        raise UsageError(
            f"no figure of {gpu_type} is published, so that its speed cannot be predicted: use --gpu-type for another "
            f"({types}); llmbx show has the memory on {gpu_type}"
        )
    if entry is None:
        raise UsageError(f"no rates of GPU type '{gpu_type}'{did_you_mean(gpu_type, known())}")
    return entry


@functools.cache
def known() -> Mapping[str, Rates]:
    """The rates of all GPU types of the table, with the peaks and NVLink domains that core has."""
    path = resources.files(__package__.rpartition(".")[0]) / "data" / "rates.toml"
    table = read_toml(path, dict[str, Rates])
    return {name: _joined(name, entry) for name, entry in table.items()}


def _joined(name: str, shipped: Rates) -> Rates:
    gpu = GpuType.builtin().get(name)
    if gpu is None:
        return shipped.replace(domain=shipped.domain or 8)
    peaks = {**shipped.peaks, **{dtype: peak.tflops for dtype, peak in gpu.peaks.items()}}
    domain = shipped.domain or (gpu.gpus_per_node or 1) * (gpu.nvlink_domain_nodes or 1)
    return shipped.replace(peaks=peaks, domain=domain, memory_gb=gpu.memory_gb)
