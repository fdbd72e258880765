"""Recompute published figures and list those that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from llmbx.api import GpuType, Reference, UsageError, Workload
from llmbx.api.verbs import Config, Plugins

from .cases import build_cases, find_workload, unresolved_names
from .cells import TOLERANCE, count_published, count_recomputable, disputes
from .examples import disputed_examples
from .findings import Audit, Disputed, ExampleDispute, RowDispute
from .rows import disputed_rows
from .terms import Case

__all__ = [
    "TOLERANCE",
    "Audit",
    "Disputed",
    "ExampleDispute",
    "RowDispute",
    "audit_file",
    "audit_workloads",
    "disputes_of",
]


def audit_workloads(
    workloads: Sequence[Workload], plugins: Plugins, config: Config, tolerance: float = TOLERANCE
) -> Audit:
    """Audit all published figures, configuration rows and worked examples of these workloads."""
    audits = [_audit_workload(workload, plugins, config, tolerance) for workload in workloads]
    return Audit(
        cells=sum(part.cells for part in audits),
        disputed=tuple(item for part in audits for item in part.disputed),
        rows=tuple(item for part in audits for item in part.rows),
        examples=tuple(item for part in audits for item in part.examples),
    )


def audit_file(
    path: Path, plugins: Plugins, config: Config, workload: str | None = None, tolerance: float = TOLERANCE,
    warn: Callable[[str], None] = lambda line: None,
) -> Audit:  # fmt: skip
    """Audit a reference file. `workload` is its workload; by default it is detected.

    If the workload is unknown, only the values in the file are used. `warn` is called if some cells cannot be
    recomputed. Raises `UsageError` if the file cannot be read or if nothing in it can be recomputed.
    """
    from llmbx.api.verbs import PublishedReferences

    published = PublishedReferences.read(path)
    owner = find_workload(published, str(path), workload, plugins)
    name = owner.name if owner else published.workload or path.stem
    cases = build_cases(published.references, owner, plugins, config, name)
    tables = _tables(cases)
    audit = Audit(
        cells=count_recomputable(tables),
        disputed=tuple(disputes(tables, tolerance)),
        examples=tuple(disputed_examples(published.examples, cases, GpuType.extend(config.gpus), tolerance, name)),
    )
    unknown = count_published(tables) - audit.cells
    unclear = [case.reference for case in tables if count_published([case]) > count_recomputable([case])]
    errors = unresolved_names(unclear, owner, published.workload, plugins, config)
    why = f": {'; '.join(errors)}" if errors else ""
    hint = "set sequence_length, global_batch_size and model_flops in its tables, or use --workload"
    if not audit.cells and (unknown or not published.examples):
        raise UsageError(f"{path}: no figure can be recomputed{why}; {hint}")
    if unknown:
        warn(f"{path}: {unknown} of {count_published(tables)} cells cannot be recomputed{why}; {hint}")
    return audit


def disputes_of(reference: Reference, workload: Workload, plugins: Plugins, config: Config) -> list[Disputed]:
    """The disputed figures of one published row. `llmbx compare` warns about them."""
    cases = build_cases(workload.references, workload, plugins, config)
    return disputes([case for case in cases if case.reference == reference])


def _audit_workload(workload: Workload, plugins: Plugins, config: Config, tolerance: float) -> Audit:
    cases = build_cases(workload.references, workload, plugins, config)
    tables, gpus = _tables(cases), GpuType.extend(config.gpus)
    return Audit(
        cells=count_recomputable(tables),
        disputed=tuple(disputes(tables, tolerance)),
        rows=tuple(disputed_rows(workload, plugins, config)),
        examples=tuple(disputed_examples(workload.examples, cases, gpus, tolerance, workload.name)),
    )


def _tables(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if case.reference.kind != "example"]
