"""The formulas of throughput and utilization, as the recipes print them; the only place in which they are written."""

from __future__ import annotations

SECONDS_PER_DAY = 86400


def tokens_per_s(sequence_length: int, global_batch_size: float, step_time_s: float) -> float:
    """Tokens per second of all GPUs: sequence length x global batch size / step time."""
    return sequence_length * global_batch_size / step_time_s


def days_per_1t_tokens(rate: float) -> float:
    """Days for 10^12 tokens at `rate` tokens per second."""
    return 1e12 / rate / SECONDS_PER_DAY


def tflops_per_gpu(flops_per_sample: float, global_batch_size: float, step_time_s: float, gpus: int) -> float:
    """Model TFLOP/s per GPU: FLOPs per sample x global batch size / (step time x GPUs)."""
    return flops_per_sample * global_batch_size / (step_time_s * gpus) / 1e12


def mfu(tflops: float, peak_tflops: float) -> float:
    """Model FLOPs utilization, a fraction: TFLOP/s per GPU / the GPU's peak."""
    return tflops / peak_tflops
