"""The most that the GPU gives: a bare matrix product in BF16 and in FP8, and a copy in its memory, as a JSON object.

Random matrices as large as the widest of the models (zeros would be faster than any real data), each time another set,
timed with CUDA's events after a warm-up. A copy counts the bytes that are read and those that are written. Without
CUDA, as a rehearsal, BF16 and the copy run on the CPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

WARM_UP, TIMED, SETS = 5, 30, 3
FP8_FROM = (8, 9)
"""The first compute capability with FP8."""


def main() -> None:
    """Measure, and print the median, the best and the worst of each."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=16384, help="rows and columns of the matrices")
    parser.add_argument("--copy-mib", type=int, default=8192, help="size of what is copied")
    asked = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    flops, copied = 2 * asked.size**3 / 1e12, 2 * asked.copy_mib * 2**20 / 1e12
    has_fp8 = cuda and torch.cuda.get_device_capability() >= FP8_FROM
    found: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "torch": torch.__version__,
        "size": asked.size,
        "bf16_tflops": spread(flops, bf16(asked.size, device)),
        "fp8_tflops": spread(flops, fp8(asked.size)) if has_fp8 else None,
        "copy_tb_per_s": spread(copied, copy(asked.copy_mib, device)),
    }
    print(json.dumps(found))


def bf16(size: int, device: str) -> list[float]:
    """Seconds of products of two BF16 matrices."""
    import torch

    pairs = [[torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in "ab"] for _ in range(SETS)]
    return timed(lambda number: pairs[number % SETS][0] @ pairs[number % SETS][1], device)


def fp8(size: int) -> list[float]:
    """Seconds of products of two E4M3 matrices, scaled by tensor, with fast accumulation, in BF16."""
    import torch

    def random() -> Any:
        return torch.randn(size, size, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)

    pairs, one = [(random(), random().t()) for _ in range(SETS)], torch.ones((), device="cuda")

    def product(number: int) -> Any:
        left, right = pairs[number % SETS]
        return torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return timed(product, "cuda")


def copy(mib: int, device: str) -> list[float]:
    """Seconds of copies of `mib` MiB."""
    import torch

    source, target = (torch.randint(0, 255, (mib * 2**20,), device=device, dtype=torch.uint8) for _ in "ab")
    return timed(lambda _: target.copy_(source), device)


def timed(work: Callable[[int], Any], device: str) -> list[float]:
    """Seconds of `TIMED` calls of `work`, after a warm-up."""
    return [_once(work, number, device) for number in range(WARM_UP + TIMED)][WARM_UP:]


def _once(work: Callable[[int], Any], number: int, device: str) -> float:
    import torch

    if device == "cpu":
        begun = time.perf_counter()
        work(number)
        return time.perf_counter() - begun
    first, last = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    first.record()
    work(number)
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 1e3


def spread(amount: float, seconds: list[float]) -> dict[str, float]:
    """`amount` by second: median, least and most."""
    rates = [amount / value for value in seconds]
    return {"median": statistics.median(rates), "min": min(rates), "max": max(rates)}


if __name__ == "__main__":
    main()
