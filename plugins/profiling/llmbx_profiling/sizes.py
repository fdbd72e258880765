"""How large the profiles of a run will be, and whether the disk can hold them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from llmbx.model import RunSpec
from llmbx.resolve.ranks import numbers

BASE = 200_000
"""Bytes of a report without any GPU activity: 0.13 MB written by nsys 2022.4, 0.19 MB by 2023.4 (measured)."""

KERNELS = 100
"""Kernels of one transformer layer for one micro-batch, forward and backward: an order of magnitude."""

PER_KERNEL = 800
"""Bytes a kernel leaves in a report, its launch and ranges included: three steps of a rank that ran 16 layers x 128
micro-batches of 256 GPUs were 0.6 GB, as users of the Llama 3.1 recipe saw."""

METRICS = 4_000_000
"""Bytes a second of GPU counters at nsys's default 10 kHz, some 400 bytes a sample."""

SECONDS = 10
"""What a step is taken to last for the counters, whose size goes by time."""


def estimate(spec: RunSpec) -> tuple[int, int]:
    """Files and bytes in all of the run's profile; the bytes are an order of magnitude. Pure.

    Layers of a pipeline stage x micro-batches x kernels, once more for recomputed layers; experts double a layer.
    """
    profile = spec.profile
    if profile is None:
        return 0, 0
    chosen = numbers(profile.ranks, spec.gpus)
    if spec.gpu_type == "cpu":
        return len(chosen), BASE * len(chosen)
    steps = profile.stop - profile.start
    layers = -(-spec.model.layers // spec.parallelism.pp) + spec.recompute_layers / 2
    kernels = layers * KERNELS * spec.gradient_accumulation * (2 if spec.model.experts else 1)
    total = len(chosen) * (BASE + steps * kernels * PER_KERNEL)
    if profile.gpu_metrics:
        total += len({rank // spec.gpus_per_node for rank in chosen}) * steps * SECONDS * METRICS
    return len(chosen), int(total)


def free_space(path: str | None) -> int | None:
    """Bytes that are free where `path` is or will be; None where nobody can tell."""
    if path is None:
        return None
    here = Path(path).absolute()
    for folder in (here, *here.parents):
        if folder.is_dir():
            try:
                return shutil.disk_usage(os.fspath(folder)).free
            except OSError:
                return None
    return None


def human(size: float) -> str:
    """Bytes in words: 612 kB, 1.5 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
