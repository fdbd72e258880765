"""How far two configurations are from each other, and what differs between them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ..case import Case
from ..cost.model import Model
from ..cost.rates import Rates, rates
from ..cost.roofline import model_flops

GENERATIONS = {
    "a100": "ampere", "h100": "hopper", "h200": "hopper", "b200": "blackwell", "gb200": "blackwell",
    "b300": "blackwell", "gb300": "blackwell", "mi300x": "cdna3", "mi325x": "cdna3", "mi350x": "cdna4",
    "mi355x": "cdna4",
}  # fmt: skip
"""GPU types that share kernels."""
LAYOUT = ("tp", "pp", "cp", "ep", "vp", "mbs")


def generation(gpu_type: str) -> str:
    """The generation of a GPU type; its own name if it is alone."""
    return GENERATIONS.get(gpu_type, gpu_type)


def gpus_apart(a: str, b: str) -> tuple[float, float]:
    """How far two GPU types with known rates are: by generation, then by peak and memory bandwidth in doublings."""
    mine, theirs = rates(a), rates(b)
    return _gpus(a, b), _doublings(_bf16(mine), _bf16(theirs)) + _doublings(mine.memory, theirs.memory)


def _bf16(gpu: Rates) -> float:
    """The BF16 peak; 1 if it is unknown, which is far from all."""
    return gpu.peaks.get("bf16", 1.0)


def differences(case: Case, other: Case) -> dict[str, float]:
    """What differs between two configurations -> by how much. The sum is their distance; 0 is the same configuration.

    A GPU of another generation and a model of another family count 2, another GPU type or dtype 1, doubling the FLOPs
    of a token 1, doubling a degree of parallelism 0.1, doubling the sequence 0.3, a year between the releases 0.3.
    """
    distances = {
        "model": _models(case.model, other.model),
        "GPU type": _gpus(case.gpu_type, other.gpu_type),
        "dtype": float(case.dtype != other.dtype),
        "task": 2.0 * (case.task != other.task),
        "framework": float(case.stack != other.stack),
        "sequence length": 0.3 * _doublings(case.seq, other.seq),
        "GPUs": 0.1 * _doublings(case.gpus, other.gpus),
        "parallelism": 0.1 * sum(_doublings(getattr(case, name), getattr(other, name)) for name in LAYOUT),
        "FSDP": 0.3 * (case.fsdp != other.fsdp),
        "recomputation": 0.3 * (case.recompute != other.recompute),
        "release": 0.3 * min(3.0, abs(case.when - other.when)),
    }
    return {name: round(value, 3) for name, value in distances.items() if value > 0.005}


def distance(case: Case, other: Case) -> float:
    """The sum of the differences."""
    return sum(differences(case, other).values())


class Neighbours:
    """Configurations among which the nearest ones are looked for, by model and GPU type: most are soon too far."""

    ROUNDED = 0.02
    """More than `differences` rounds off or leaves out of the distances of two models and two GPU types."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._kinds: dict[tuple[Model, str], list[tuple[int, Case]]] = {}
        for index, case in enumerate(cases):
            self._kinds.setdefault((case.model, case.gpu_type), []).append((index, case))

    def nearest(self, case: Case) -> tuple[int, dict[str, float]]:
        """The position of the nearest, the first of equal ones, and what differs."""
        least = [
            (_models(case.model, model) + _gpus(case.gpu_type, gpu_type) - self.ROUNDED, cases)
            for (model, gpu_type), cases in self._kinds.items()
        ]
        nearest: tuple[float, int, dict[str, float]] = (math.inf, 0, {})
        for distance_at_least, cases in sorted(least, key=lambda pair: pair[0]):
            if distance_at_least > nearest[0]:
                break
            for index, other in cases:
                differing = differences(case, other)
                nearest = min(nearest, (sum(differing.values()), index, differing), key=lambda place: place[:2])
        return nearest[1:]


def _doublings(a: float, b: float) -> float:
    return abs(math.log2(a / b))


def _gpus(a: str, b: str) -> float:
    return 0.0 if a == b else 1.0 if generation(a) == generation(b) else 2.0


@functools.lru_cache(maxsize=4096)
def _models(a: Model, b: Model) -> float:
    if a.name == b.name:
        return 0.5 * _doublings(a.layers, b.layers) if a.layers != b.layers else 0.0
    return 0.5 + 2.0 * (a.family != b.family) + _doublings(_cost(a), _cost(b))


@functools.lru_cache(maxsize=256)
def _cost(model: Model) -> float:
    return model_flops(Case(model=model, gpu_type="h100", gpus=8, dtype="bf16", gbs=8, seq=4096))
