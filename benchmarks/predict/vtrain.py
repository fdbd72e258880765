"""vTrain's measured step times on A100 (Megatron-DeepSpeed), which are read from a folder and not shipped."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path

import folds
from errors import heading, left_out, line
from folds import Used
from sources import read_csv

from llmbx_prediction.atlas.row import Row
from llmbx_prediction.case import Case
from llmbx_prediction.cost.model import Model
from llmbx_prediction.regression.shipped import Calibration

VOCABULARY = 51200


def read(path: Path) -> list[tuple[Row, Case, float]]:
    """The figures of one file with their configurations: sweeps over layouts. The activations are recomputed."""
    found = []
    for number, cells in enumerate(read_csv(path), 2):
        one = {name.strip(): float(text) for name, text in cells.items()}
        hidden, layers, gpus = int(one["hidden size"]), int(one["# layers"]), int(one["# GPUs"])
        heads, seconds = int(one["attention heads"]), one["iteration time (ms)"] / 1e3
        model = Model(name=f"gpt-{layers}x{hidden}", layers=layers, hidden=hidden, ffn=4 * hidden, heads=heads,
                      groups=heads, vocab=VOCABULARY, gated=False, tied=True)  # fmt: skip
        case = Case(
            model=model, gpu_type="a100", gpus=gpus, dtype="bf16", gbs=int(one["global batch"]),
            mbs=int(one["micro batch"]), seq=int(one["sequence length"]), tp=int(one["tensor parallelism"]),
            pp=int(one["pipeline parallelism"]), recompute="full", chosen=False, stack="megatron-deepspeed",
            when=2023.9,
        )  # fmt: skip
        row = Row(source=f"vTrain {path.stem}", release="2023", when=2023.9, place=f"line {number}",
                  stack="megatron-deepspeed", model=model.name, gpu_type="a100", gpus=gpus)  # fmt: skip
        found.append((row, case, seconds))
    return found


def tables(folder: Path) -> tuple[list[tuple[Row, Case, float]], list[tuple[Row, Case, float]]]:
    """The figures of several nodes, and every eighth one of a single node."""
    return (read(folder / "vtrain" / "ground_truth_multi.csv"),
            read(folder / "vtrain" / "ground_truth_single.csv")[::8])  # fmt: skip


def unseen_models(
    used: Used, data: Used, coefficients: Mapping[str, float], scales: Mapping[str, float]
) -> list[tuple[str, float]]:
    """The errors of vTrain's figures with their model left out: the model, and the error in standard deviations."""
    both = [*used, *data]
    mine = [False] * len(used) + [True] * len(data)
    found = folds.left_out_errors(both, by_model(used, data), coefficients, scales, mine)
    return [(both[error.index][0].model, error.size) for error in found]


def by_model(used: Used, data: Used) -> list[Hashable]:
    """The groups in which each model of vTrain is left out alone, and nothing of the table."""
    return [*[""] * len(used), *(row.model for row, *_ in data)]


def measure(folder: Path, used: Used, shipped: Calibration) -> None:
    """Print the errors: with nothing of vTrain, and with each model left out."""
    multi, single = tables(folder)
    for title, data in (("multi-node", multi), ("single-node, every eighth figure", single)):
        both = [*used, *data]
        mine = [False] * len(used) + [True] * len(data)
        all_: list[Hashable] = ["" if not own else "vTrain" for own in mine]
        heading(f"vTrain, {title} (its own error: {'14.7' if data is multi else '8.4'} %)")
        line("llmbx, nothing of vTrain known", both, left_out(both, all_, mine, shipped))
        line("llmbx, the model left out", both, left_out(both, by_model(used, data), mine, shipped))
