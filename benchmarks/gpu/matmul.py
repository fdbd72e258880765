"""A bare matrix product, as large as the widest of the models: what the GPU gives at best. Prints one JSON object.

Random BF16 matrices (zeros would be faster than any real data), each time another set, timed with CUDA's events after
a warm-up; without CUDA, as a rehearsal, on the CPU with its clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

WARM_UP, TIMED, SETS = 5, 30, 3


def main() -> None:
    """Measure and print the median, and the best and the worst."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=16384)
    size = parser.parse_args().size
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pairs = [[torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in "ab"] for _ in range(SETS)]
    times = [once(*pairs[number % SETS], device) for number in range(WARM_UP + TIMED)][WARM_UP:]
    rate = [2 * size**3 / seconds / 1e12 for seconds in times]
    found = {"size": size, "dtype": "bf16", "device": device, "times": len(times), "torch": torch.__version__}
    figures = {"tflops": statistics.median(rate), "tflops_min": min(rate), "tflops_max": max(rate)}
    name = torch.cuda.get_device_name() if device == "cuda" else None
    print(json.dumps({**found, **figures, "gpu": name}))


def once(left, right, device: str) -> float:  # type: ignore[no-untyped-def]
    """Seconds of one product."""
    import torch

    if device == "cpu":
        begun = time.perf_counter()
        left @ right
        return time.perf_counter() - begun
    first, last = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    first.record()
    left @ right
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1e3


if __name__ == "__main__":
    main()
