"""What two sides must have in common to be comparable, and what of it is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmbx.api import Reference, RunSpec, Scalar

WORK = {
    "workload": "workload",
    "size": "size",
    "dtype": "dtype",
    "gpu_type": "GPU type",
    "gpus": "number of GPUs",
    "global_batch_size": "global batch size",
    "sequence_length": "sequence length",
    "tokens_per_step": "number of tokens in a step",
}
"""What is compared if both sides know it, and how messages call it."""

DECISIVE = {
    **{key: label for key, label in WORK.items() if key != "tokens_per_step"},  # this follows from two others
    "model": "shape of the model",
    "instrumentation": "profiling and tracing",
}
"""What decides whether two sides are comparable. Of runs all of it is known."""


def work_of(spec: RunSpec) -> Mapping[str, Scalar]:
    """The work of a run."""
    own = {key: getattr(spec, key) for key in WORK if key != "sequence_length"}
    return {**own, "sequence_length": spec.model.sequence_length}


def work_published(row: Reference) -> Mapping[str, Scalar]:
    """The work of a published row, as far as it is published."""
    return {key: getattr(row, key) for key in WORK if key not in ("workload", "tokens_per_step")}


def known_differences(a: Mapping[str, Scalar], b: Mapping[str, Scalar]) -> list[str]:
    """How the work differs, as far as both sides know it."""
    both = [key for key in WORK if a.get(key) is not None and b.get(key) is not None]
    return [f"the {WORK[key]} differs ({a[key]} and {b[key]})" for key in both if a[key] != b[key]]


def unknown_text(a: Sequence[str], b: Sequence[str]) -> str | None:
    """One line with what is not known of which side; None if everything is."""
    sides = {key: tuple(name for name, keys in (("A", a), ("B", b)) if key in keys) for key in DECISIVE}
    parts = [
        f"{', '.join(DECISIVE[key] for key in DECISIVE if sides[key] == which)} ({' and '.join(which)})"
        for which in dict.fromkeys(which for which in sides.values() if which)
    ]
    return f"unknown: {'; '.join(parts)}" if parts else None
