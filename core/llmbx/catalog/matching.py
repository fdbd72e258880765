"""Choose the published result that a run is compared with, and list the differences in the work of two runs."""

from __future__ import annotations

from typing import get_args

from ..model import Reference, RunSpec, Workload
from ..model.workload import Kind

KINDS = get_args(Kind)

SAME = (
    ("workload", "workload"),
    ("size", "size"),
    ("dtype", "dtype"),
    ("gpu_type", "GPU type"),
    ("gpus", "number of GPUs"),
    ("global_batch_size", "global batch size"),
)
"""Fields of a specification that two runs must have in common, and how messages call them."""


def nearest_row(spec: RunSpec, workload: Workload) -> Reference | None:
    """The published result for the run's size, dtype, GPU type and scale with the fewest differences; None if there is
    none.

    Among equals, rows of the recipe's tables are preferred to its worked examples, which sources round and copy from
    older releases, and both to figures that were published elsewhere.
    """
    case = (spec.size, spec.dtype, spec.gpu_type, spec.gpus)
    rows = [r for r in workload.references if (r.size, r.dtype, r.gpu_type, r.gpus) == case]
    return min(
        rows, key=lambda r: (r.step_time_s is None, len(differences(spec, r)), KINDS.index(r.kind)), default=None
    )


def exact_row(spec: RunSpec, workload: Workload) -> Reference | None:
    """The published result for exactly the work of the run: same recipe, model, batch size and sequence length."""
    row = nearest_row(spec, workload)
    return row if row is not None and not spec.proxy and not differences(spec, row) else None


def why_no_figure(spec: RunSpec, workload: Workload) -> str | None:
    """Why no published step time is for exactly the work of the run, in one line; None if there is one."""
    row = nearest_row(spec, workload)
    if spec.mini:
        return "a mini is not comparable with published figures"
    if row is None or row.step_time_s is None:
        return f"no published figures for {spec.workload} {spec.size} {spec.dtype} on {spec.gpus} x {spec.gpu_type}"
    if spec.proxy:
        return "a proxy is not comparable with published figures"
    reasons = differences(spec, row)
    return f"the published figures are those of another job: {'; '.join(reasons)}" if reasons else None


def differences(spec: RunSpec, row: Reference) -> list[str]:
    """How the run's work differs from the published row; empty if it agrees in everything that the row specifies."""
    pairs = (
        ("recipe", spec.recipe, row.recipe),
        ("global batch size", spec.global_batch_size, row.global_batch_size),
        ("sequence length", spec.model.sequence_length, row.sequence_length),
        *((name.upper(), _degree(spec, name), degree) for name, degree in row.layout.items()),
    )
    return [
        f"the {words} differs ({theirs} was published, {ours} was run)"
        for words, ours, theirs in pairs
        if theirs is not None and ours != theirs
    ]


def _degree(spec: RunSpec, name: str) -> int:
    """A degree of parallelism, or the micro-batch size (`mbs`)."""
    if name == "mbs":
        return spec.micro_batch_size
    return getattr(spec.parallelism, name) or 1


def work_differences(a: RunSpec, b: RunSpec) -> list[str]:
    """Differences that make the speeds of two runs incomparable; empty if they do the same work."""
    pairs = [(label, getattr(a, name), getattr(b, name)) for name, label in SAME]
    shapes = [(name, getattr(a.model, name), getattr(b.model, name)) for name in a.model.__struct_fields__]
    return [
        *(f"the {label} differs ({left} and {right})" for label, left, right in pairs if left != right),
        *(f"the models differ in {name} ({left} and {right})" for name, left, right in shapes if left != right),
    ]
