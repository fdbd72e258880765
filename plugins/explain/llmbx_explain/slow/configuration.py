"""Rules for work that differs from that of the other run, by both final configurations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .case import Case
from .finding import Line

KINDS: tuple[tuple[str, str], ...] = (
    ("recompute", r"recompute|remat|activation_checkpoint"),
    ("dtype-fallback", r"dtype|precision|bf16|fp16|fp8|fp4|quantization"),
    ("graphs-off", r"cuda_graph"),
    ("bubble", r"num_microbatches|virtual_pipeline|pipeline_model_parallel"),
    ("expert-imbalance", r"router|load_balanc|aux_loss|capacity_factor"),
    ("wrong-work", r"layers|hidden|ffn|seq_length|sequence_length|batch|vocab|heads|experts"),
)
"""The cause that a difference in an option of the framework means, in the order in which they are looked for."""
MOST = 3


def differences(case: Case) -> Iterator[tuple[str, Line]]:
    """Yield the causes that the differences of the configurations may be, each with its evidence."""
    if case.healthy is None:
        return
    own, other = case.run.final, case.healthy.run.final
    changed = sorted(key for key in own.keys() & other.keys() if own[key] != other[key])
    for cause, pattern in KINDS:
        keys = [key for key in changed if re.search(pattern, key)]
        if keys:
            values = ", ".join(f"{key} {other[key]} -> {own[key]}" for key in keys[:MOST])
            yield cause, Line("configuration", f"configs/final.json: {values}")
