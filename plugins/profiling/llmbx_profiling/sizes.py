"""Estimate the size of a run's profiles, and find the free disk space."""

from __future__ import annotations

from llmbx.api import RunSpec, rank_numbers

from .settings import samples_gpus

BASE = 200_000
"""Bytes of a report without any GPU activity: 0.13 MB written by nsys 2022.4, 0.19 MB by 2023.4 (measured)."""

KERNELS = 100
"""Kernels of one transformer layer for one micro-batch, forward and backward (order of magnitude)."""

PER_KERNEL = 800
"""Bytes per kernel in a report, including its launch and ranges. From a report by users of the Llama 3.1 recipe: 0.6 GB
for three steps of one rank with 16 layers x 128 micro-batches on 256 GPUs."""

METRICS = 4_000_000
"""Bytes per second of GPU counters at nsys's default of 10 kHz, at about 400 bytes per sample."""

SECONDS = 10
"""Assumed duration of a step, for the size of the counters."""


def estimate(spec: RunSpec) -> tuple[int, int]:
    """Return the number and total bytes of the run's profiles; the bytes are an order of magnitude. Pure.

    The number of kernels is layers of a pipeline stage x micro-batches x `KERNELS`. A recomputed layer counts as 1.5
    layers, a layer with experts as 2.
    """
    profile = spec.profile
    if profile is None:
        return 0, 0
    chosen = rank_numbers(profile.ranks, spec.gpus)
    if spec.gpu_type == "cpu":
        return len(chosen), BASE * len(chosen)
    steps = profile.stop - profile.start
    layers = -(-spec.model.layers // spec.parallelism.pp) + spec.recompute_layers / 2
    kernels = layers * KERNELS * spec.gradient_accumulation * (2 if spec.model.experts else 1)
    total = len(chosen) * (BASE + steps * kernels * PER_KERNEL)
    if samples_gpus(spec):
        total += len({rank // spec.gpus_per_node for rank in chosen}) * steps * SECONDS * METRICS
    return len(chosen), int(total)
