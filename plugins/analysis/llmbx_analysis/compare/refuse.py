"""What must be equal before two speeds may be compared: every reason why not, at once. Pure."""

from __future__ import annotations

from llmbx.catalog.matching import differences
from llmbx.model import Convention, Reference, Result, RunSpec

from .measured import Measured
from .metrics import under

SAME = (
    ("workload", "workload"),
    ("size", "size"),
    ("dtype", "dtype"),
    ("gpu_type", "GPU type"),
    ("gpus", "number of GPUs"),
    ("global_batch_size", "global batch size"),
)


def unlike(a: RunSpec, b: RunSpec) -> list[str]:
    """In what two runs differ that makes their speeds incomparable; empty when they do the same work."""
    pairs = [(words, getattr(a, name), getattr(b, name)) for name, words in SAME]
    shapes = [(name, getattr(a.model, name), getattr(b.model, name)) for name in a.model.__struct_fields__]
    return [
        *(f"the {words} differs ({one} and {other})" for words, one, other in pairs if one != other),
        *(f"the models differ in {name} ({one} and {other})" for name, one, other in shapes if one != other),
    ]


def disturbed(result: Result) -> list[str]:
    """Why a run's own figure is no measure of its speed."""
    name = result.run_id
    return [
        f"{name} was {words}" for words, is_so in (("profiled", result.profiled), ("traced", result.traced)) if is_so
    ]


def unconvertible(result: Result, convention: Convention | None) -> list[str]:
    """Why a result's FLOPs cannot be held against those of another convention; empty where they are converted."""
    own = result.mfu.convention
    if own is None or convention is None or result.mfu.value is None or under(result, convention, "mfu") is not None:
        return []
    return [
        f"the FLOPs are counted differently ({convention} and {own} attention), and those of a sample, which would "
        "convert them, are not known"
    ]


def between_runs(a: Measured, b: Measured, profiles: bool = False) -> list[str]:
    """Every reason not to compare two runs, or, with `profiles`, what was profiled of them."""
    if profiles:
        return [*unlike(a.spec, b.spec), *_other_profiles(a.spec, b.spec)]
    counted = unconvertible(b.result, a.result.mfu.convention)
    return [*unlike(a.spec, b.spec), *counted, *disturbed(a.result), *disturbed(b.result)]


def _other_profiles(a: RunSpec, b: RunSpec) -> list[str]:
    what = [(spec.profilers, spec.profile and spec.profile.ranks) for spec in (a, b)]
    return [] if what[0] == what[1] else [f"other profilers or ranks were profiled ({what[0]} and {what[1]})"]


def against_published(run: Measured, reference: Reference) -> list[str]:
    """Every reason not to hold a run against a published row (of its size, dtype, GPU type and scale)."""
    counted = unconvertible(run.result, reference.convention) if reference.mfu is not None else []
    return [*run.result.not_comparable_because, *differences(run.spec, reference), *counted]
