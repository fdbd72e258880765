"""Recomputes what was published, and says what does not hold and which assumption explains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from llmbx.catalog import hardware
from llmbx.config.profiles import Config
from llmbx.errors import UsageError
from llmbx.model import Reference, Workload
from llmbx.plugins.manager import Plugins

from .cells import TOLERANCE, count, disputes, printed
from .examples import disputed_examples
from .gather import cases_of, known_of, workload_of, wrong_words
from .rows import disputed_rows
from .terms import Case
from .values import Audit, Disputed, ExampleDispute, RowDispute

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
    """The audit of all published figures and configuration rows of these workloads."""
    found = [_audit_workload(workload, plugins, config, tolerance) for workload in workloads]
    return Audit(
        cells=sum(part.cells for part in found),
        disputed=tuple(item for part in found for item in part.disputed),
        rows=tuple(item for part in found for item in part.rows),
        examples=tuple(item for part in found for item in part.examples),
    )


def audit_file(
    path: Path, plugins: Plugins, config: Config, workload: str | None = None, tolerance: float = TOLERANCE,
    warn: Callable[[str], None] = lambda line: None,
) -> Audit:  # fmt: skip
    """The audit of a reference file, of whichever workload it is; without one its own terms are used.

    `warn` is told of cells that cannot be recomputed. Raises `UsageError` when the file cannot be read, or when nothing
    in it can be recomputed.
    """
    from llmbx.catalog.references import load_published

    published = load_published(path)
    owner = workload_of(published, str(path), workload, plugins)
    name = owner.name if owner else published.workload or path.stem
    cases = cases_of(published.references, owner, plugins, config, name)
    known = known_of(cases, plugins.workloads, hardware.extend(config.gpus))
    tables = _tables(cases)
    found = Audit(
        cells=count(tables),
        disputed=tuple(disputes(tables, known, tolerance)),
        examples=tuple(disputed_examples(published.examples, cases, known, tolerance, name)),
    )
    unknown = printed(tables) - found.cells
    unclear = [case.reference for case in tables if printed([case]) > count([case])]
    words = wrong_words(unclear, owner, published.workload, plugins, config)
    why = f": {'; '.join(words)}" if words else ""
    terms = "give sequence_length, global_batch_size and model_flops in its tables, or say --workload"
    if not found.cells and (unknown or not published.examples):
        raise UsageError(f"{path}: nothing in it can be recomputed{why}; {terms}")
    if unknown:
        warn(f"{path}: {unknown} of {printed(tables)} cells cannot be recomputed{why}; {terms}")
    return found


def disputes_of(reference: Reference, workload: Workload, plugins: Plugins, config: Config) -> list[Disputed]:
    """What the arithmetic disputes about one published row: what `compare` warns of."""
    cases = cases_of(workload.references, workload, plugins, config)
    known = known_of(cases, plugins.workloads, hardware.extend(config.gpus))
    return disputes([case for case in cases if case.reference == reference], known)


def _audit_workload(workload: Workload, plugins: Plugins, config: Config, tolerance: float) -> Audit:
    cases = cases_of(workload.references, workload, plugins, config)
    known = known_of(cases, plugins.workloads, hardware.extend(config.gpus))
    tables = _tables(cases)
    return Audit(
        cells=count(tables),
        disputed=tuple(disputes(tables, known, tolerance)),
        rows=tuple(disputed_rows(workload, plugins, config)),
        examples=tuple(disputed_examples(workload.examples, cases, known, tolerance, workload.name)),
    )


def _tables(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if case.reference.kind == "table"]
