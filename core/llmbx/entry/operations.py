"""Count the floating-point operations of one step in a rank: `llmbx plugins check` compares them with the formula."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

VARIABLE = "LLMBX_COUNT_FLOPS"
"""Set to 1 by `llmbx plugins check`: counting may slow a step down."""

FILE = "counted_flops.json"


def wanted(env: Mapping[str, str] | None = None) -> bool:
    """Whether the operations of a step are to be counted."""
    return (os.environ if env is None else env).get(VARIABLE, "") not in ("", "0")


def write(folder: Path, flops: float, samples: int) -> None:
    """Record that this rank's step of `samples` samples, forward and backward, took `flops` operations."""
    if wanted():
        (folder / FILE).write_text(json.dumps({"flops": flops, "samples": samples}) + "\n", encoding="utf-8")


@contextlib.contextmanager
def of_torch(folder: Path, samples: int) -> Iterator[None]:
    """Count the matrix products inside with PyTorch's FlopCounterMode, and record them; does nothing if not wanted.

    Attention goes through plain matrix products meanwhile: the counter does not know every fused kernel.
    """
    if not wanted():
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        yield
    write(folder, counter.get_total_flops(), samples)
