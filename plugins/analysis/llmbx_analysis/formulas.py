"""The formulas by which published figures are recomputed, and figures converted to another convention."""

from __future__ import annotations

SECONDS_PER_DAY = 86400


def days_per_1t_tokens(rate: float) -> float:
    """Days for 10^12 tokens at `rate` tokens per second."""
    return 1e12 / rate / SECONDS_PER_DAY


def tflops_per_gpu(flops_per_sample: float, global_batch_size: float, step_time_s: float, gpus: int) -> float:
    """Model TFLOP/s per GPU: FLOPs per sample x global batch size / (step time x GPUs)."""
    return flops_per_sample * global_batch_size / (step_time_s * gpus) / 1e12
