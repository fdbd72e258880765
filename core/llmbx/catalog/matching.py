"""Which published row a run is held against, and what speaks against holding it. Pure: the one place that chooses."""

from __future__ import annotations

from ..model import Reference, Result, RunSpec, Workload


def nearest_row(spec: RunSpec, workload: Workload) -> Reference | None:
    """The published row for the run's size, dtype, GPU type and scale that differs least from it; None without one.

    Of those that differ alike, rows of a table come before worked examples, which sources round and keep from older
    releases.
    """
    wanted = (spec.size, spec.dtype, spec.gpu_type, spec.gpus)
    found = [r for r in workload.references if (r.size, r.dtype, r.gpu_type, r.gpus) == wanted]
    return min(found, key=lambda r: (r.step_time_s is None, len(differences(spec, r)), r.kind != "table"), default=None)


def exact_row(spec: RunSpec, workload: Workload) -> Reference | None:
    """The published row for just the work that the run does: the same recipe, model, batch and sequence length."""
    row = nearest_row(spec, workload)
    return row if row is not None and not spec.proxy and not differences(spec, row) else None


def too_slow(result: Result, spec: RunSpec, workload: Workload, allowed: float) -> bool:
    """Whether a step took longer than published by more than the fraction `allowed`; never where nothing can say it."""
    row, seconds = exact_row(spec, workload), result.step_time_s.mean
    if not result.comparable or row is None or row.step_time_s is None or seconds is None:
        return False
    return seconds > row.step_time_s * (1 + allowed)


def differences(spec: RunSpec, row: Reference) -> list[str]:
    """In what the run's work is not the published row's; empty where it is the same as far as the row says."""
    pairs = (
        ("recipe", spec.recipe, row.recipe),
        ("global batch size", spec.global_batch_size, row.global_batch_size),
        ("sequence length", spec.model.sequence_length, row.sequence_length),
    )
    return [
        f"the {words} differs ({theirs} was published, {ours} was run)"
        for words, ours, theirs in pairs
        if theirs is not None and ours != theirs
    ]
