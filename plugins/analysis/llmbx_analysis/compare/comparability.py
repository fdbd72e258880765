"""Check whether two runs are comparable. All reasons why they are not are collected."""

from __future__ import annotations

from llmbx.api import Convention, Reference, Result, RunSpec
from llmbx.api.verbs import matching

from .measured import Measured
from .metrics import in_convention

SAME = (
    ("workload", "workload"),
    ("size", "size"),
    ("dtype", "dtype"),
    ("gpu_type", "GPU type"),
    ("gpus", "number of GPUs"),
    ("global_batch_size", "global batch size"),
)


def work_differences(a: RunSpec, b: RunSpec) -> list[str]:
    """Differences that make the speeds of two runs incomparable; empty if they do the same work."""
    pairs = [(label, getattr(a, name), getattr(b, name)) for name, label in SAME]
    shapes = [(name, getattr(a.model, name), getattr(b.model, name)) for name in a.model.__struct_fields__]
    return [
        *(f"the {label} differs ({one} and {other})" for label, one, other in pairs if one != other),
        *(f"the models differ in {name} ({one} and {other})" for name, one, other in shapes if one != other),
    ]


def instrumentation(result: Result) -> list[str]:
    """Reasons why the step time of a run is not its normal speed: it was profiled or traced."""
    name = result.run_id
    return [
        f"{name} was {label}" for label, is_set in (("profiled", result.profiled), ("traced", result.traced)) if is_set
    ]


def convention_mismatch(result: Result, convention: Convention | None) -> list[str]:
    """Why the FLOPs of a result cannot be converted to another attention convention; empty if they can."""
    own = result.mfu.convention
    if (
        own is None
        or convention is None
        or result.mfu.value is None
        or in_convention(result, convention, "mfu") is not None
    ):
        return []
    return [
        f"the FLOPs use different attention conventions ({convention} and {own}) and cannot be converted, because the "
        "FLOPs per sample are unknown"
    ]


def between_runs(a: Measured, b: Measured, profiles: bool = False) -> list[str]:
    """All reasons why two runs (with `profiles`: their profiles) are not comparable."""
    if profiles:
        return [*work_differences(a.spec, b.spec), *_profile_differences(a.spec, b.spec)]
    counted = convention_mismatch(b.result, a.result.mfu.convention)
    return [*work_differences(a.spec, b.spec), *counted, *instrumentation(a.result), *instrumentation(b.result)]


def _profile_differences(a: RunSpec, b: RunSpec) -> list[str]:
    what = [(spec.profilers, spec.profile and spec.profile.ranks) for spec in (a, b)]
    return [] if what[0] == what[1] else [f"the profilers or profiled ranks differ ({what[0]} and {what[1]})"]


def against_published(run: Measured, reference: Reference) -> list[str]:
    """All reasons why a run is not comparable with a published row of its size, dtype, GPU type and scale."""
    counted = convention_mismatch(run.result, reference.convention) if reference.mfu is not None else []
    return [*run.result.not_comparable_because, *matching.differences(run.spec, reference), *counted]
