"""The cells of a sweep. All of them are resolved and checked before the first one is submitted."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Sequence

from llmbx.api import InfraError, LlmbxError, RunSpec, UsageError, Value

from .plan import CellRequest

SHOWN = 40
"""Most invalid cells that an error lists."""
WIDTH = 80
"""Characters of a line of such an error."""


class Cell(Value, frozen=True):
    """One resolved configuration of a sweep and the number of its repeats.

    `key` identifies it within its sweep, also after a resume; `settings` are its `--set` pairs, `node` is the only node
    that it runs on, if the plan names one.
    """

    key: str
    spec: RunSpec
    repeats: int = 1
    settings: dict[str, str] = {}
    part: str | None = None
    node: str | None = None


Check = Callable[[CellRequest], RunSpec]
"""Resolves and checks one cell. Raises `UsageError` or `InfraError` if the cell cannot run."""


def resolve_cells(requests: Sequence[CellRequest], check: Check) -> tuple[Cell, ...]:
    """Resolve every cell of the plan. Raises one error that lists all cells that cannot run, with the reasons.

    The error is an `InfraError` if every reason is one, else a `UsageError`. An empty plan and duplicate cells are
    usage errors. All cells use one launcher: by default that of the cell with the most nodes.
    """
    if not requests:
        raise UsageError("the plan has no cells")
    cells = _resolved(requests, check)
    if len({cell.spec.launcher for cell in cells}) > 1:
        launcher = max(cells, key=lambda cell: cell.spec.nodes).spec.launcher
        cells = _resolved([_launched(request, launcher) for request in requests], check)
    _check_duplicates(cells)
    _check_launchers(cells)
    return tuple(cells)


def _launched(cell: CellRequest, launcher: str) -> CellRequest:
    """The request with this launcher, unless it has one."""
    return cell.replace(request=cell.request.replace(launcher=cell.request.launcher or launcher))


def _resolved(requests: Sequence[CellRequest], check: Check) -> list[Cell]:
    cells, failures = [], []
    for request in requests:
        try:
            spec = check(request)
        except LlmbxError as error:
            failures.append((request, error))
            continue
        key = cell_key(request, spec)
        cell = Cell(key=key, spec=spec, repeats=request.repeats, settings=request.settings, part=request.part)
        cells.append(cell.replace(node=request.node))
    if failures:
        raise _invalid_cells(failures, len(requests))
    return cells


def cell_key(cell: CellRequest, spec: RunSpec) -> str:
    """The key of a resolved cell, for example `llama3.1 8b bf16 h100 64 tp=2`."""
    parts = [spec.workload, spec.size, spec.dtype, spec.gpu_type, str(spec.gpus)]
    if cell.request.recipe:
        parts.append(f"recipe={spec.recipe}")
    parts += [f"{key}={value}" for key, value in cell.settings.items()]
    parts += [f"node={cell.node}"] if cell.node else []
    return " ".join([*parts, *([f"part={cell.part}"] if cell.part else [])])


def describe(cell: CellRequest) -> str:
    """The name of a cell that could not be resolved, from its explicit options."""
    request = cell.request
    parts = [request.workload, request.size, request.dtype, request.gpu_type]
    parts += [f"{request.gpus} GPUs" if request.gpus else None, request.recipe]
    parts += [f"{key}={value}" for key, value in cell.settings.items()]
    return " ".join(part for part in parts if part)


def _wrapped(text: str) -> str:
    """An entry of a list in lines of at most 80 columns."""
    wrapper = textwrap.TextWrapper(WIDTH, "  ", "    ", break_long_words=False, break_on_hyphens=False)
    return wrapper.fill(text)


def _invalid_cells(failures: list[tuple[CellRequest, LlmbxError]], count: int) -> LlmbxError:
    bad = f"{len(failures)} of {count} cells cannot run" if count > 1 else "the cell cannot run"
    lines = [_wrapped(f"{describe(request)}: {_one_line(str(error))}") for request, error in failures[:SHOWN]]
    if len(failures) > SHOWN:
        lines.append(f"  … and {len(failures) - SHOWN} more")
    kind = InfraError if all(isinstance(error, InfraError) for _, error in failures) else UsageError
    return kind("\n".join([f"{bad}; nothing was submitted:", *lines]))


def _one_line(text: str) -> str:
    first, *further = (line.strip() for line in text.splitlines())
    return f"{first} {'; '.join(further)}".strip()


def _check_duplicates(cells: Sequence[Cell]) -> None:
    duplicates = [key for key, count in Counter(cell.key for cell in cells).items() if count > 1]
    if duplicates:
        listed = "; ".join(duplicates[:3]) + (" …" if duplicates[3:] else "")
        raise UsageError(
            f"the plan has {len(duplicates)} duplicate cells: {listed}; set repeats to run a cell several times, or "
            "set a name in parts that differ in other options"
        )


def _check_launchers(cells: Sequence[Cell]) -> None:
    by_name = {cell.spec.launcher: cell.key for cell in cells}
    if len(by_name) > 1:
        listed = ", ".join(f"{name} ({key})" for name, key in by_name.items())
        raise UsageError(f"the cells use different launchers: {listed}; select one with --launcher")
