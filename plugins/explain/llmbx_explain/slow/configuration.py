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
GRAPHS = ("model.cuda_graph_impl", "model.enable_cuda_graph")
MOST = 3


def differences(case: Case) -> Iterator[tuple[str, Line]]:
    """Yield the causes that the differences of the configurations may be, each with its evidence.

    Without another run, the configuration is compared with what was asked for.
    """
    if case.healthy is None:
        yield from _not_as_asked(case)
        return
    own, other = case.run.final, case.healthy.run.final
    changed = sorted(key for key in own.keys() & other.keys() if own[key] != other[key])
    for cause, pattern in KINDS:
        keys = [key for key in changed if re.search(pattern, key)]
        if keys:
            values = ", ".join(f"{key} {other[key]} -> {own[key]}" for key in keys[:MOST])
            yield cause, Line("configuration", f"configs/final.json: {values}")


def _not_as_asked(case: Case) -> Iterator[tuple[str, Line]]:
    spec, final = case.run.spec, case.run.final
    off = [key for key in GRAPHS if key in final and final[key] in ("none", False, None)]
    if spec is not None and spec.cuda_graphs and off:
        text = f"configs/final.json: {off[0]} {final[off[0]]}, but the recipe asks for CUDA graphs (run.json)"
        yield "graphs-off", Line("configuration", text)
