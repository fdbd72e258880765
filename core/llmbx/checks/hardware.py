"""Was it the hardware that was asked for?"""

from __future__ import annotations

import re

from ..catalog.hardware import builtin
from .base import NO_SPEC, Answer, Check, Evidence, NotPossible

CPU = "cpu"
"""The GPU type of a run without GPUs, and the backend that a framework states for it."""

BACKENDS = {"gpu": "a GPU", "cuda": "a GPU", "rocm": "a GPU", CPU: "a CPU"}
"""What a backend stated in a log runs on."""


def gpu_type(evidence: Evidence) -> Answer:
    """The first rank saw GPUs of another type."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    known = builtin().get(spec.gpu_type)
    if spec.gpu_type == CPU or not evidence.gpus:
        return NotPossible(reason="the first rank did not record any GPU")
    if known is None or not known.match:
        return NotPossible(reason=f"the product names of {spec.gpu_type} are not known")
    other = [name for name in evidence.gpus if not any(re.search(pattern, name) for pattern in known.match)]
    return f"the recipe is for {known.title}, but the first rank saw {other[0]}" if other else None


def gpu_count(evidence: Evidence) -> Answer:
    """The first node has fewer GPUs than asked for."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    if spec.gpu_type == CPU or not evidence.gpus:
        return NotPossible(reason="the first rank did not record any GPU")
    wanted = min(spec.gpus, spec.gpus_per_node)
    found = len(evidence.gpus)
    return f"the first rank saw {found} GPUs, but its node should have {wanted}" if found < wanted else None


def backend(evidence: Evidence) -> Answer:
    """The framework states another kind of device."""
    spec = evidence.spec
    if spec is None:
        return NO_SPEC
    found = [str(event.facts["backend"]) for event in evidence.events if "backend" in event.facts]
    if not found:
        return NotPossible(reason="the log does not state the kind of device")
    wanted = BACKENDS[CPU] if spec.gpu_type == CPU else "a GPU"
    other = next((name for name in found if BACKENDS.get(name.lower(), wanted) != wanted), None)
    return f"the framework ran on {BACKENDS[other.lower()]}, but {spec.gpu_type} was asked for" if other else None


OTHER = "Set --gpu-type to what the machine has; its figures are then compared with those of that type."

CHECKS = (
    Check(
        "gpu-type", "The product names of the GPUs that the first rank saw, against the GPU type.",
        "The right job on other hardware: the data is valid, but not for that GPU type.", OTHER,
        "not comparable", gpu_type,
    ),
    Check(
        "gpu-count", "The number of GPUs that the first rank saw.", "A GPU is missing on the node, or is shared.",
        "Check the node with `nvidia-smi`.", "not comparable", gpu_count,
    ),
    Check(
        "backend", "The kind of device that the framework states.",
        "A run that asked for GPUs ran on a CPU, or the other way round.", OTHER, "not comparable", backend,
    ),
)  # fmt: skip
