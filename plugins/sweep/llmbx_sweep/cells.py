"""From what was asked to cells that can run: every one is resolved and checked before anything is submitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from llmbx.errors import InfraError, LlmbxError, UsageError
from llmbx.model import RunSpec, Value

from .plan import Wanted

SHOWN = 40
"""How many bad cells an error names one by one."""


class Cell(Value, frozen=True):
    """One configuration of a sweep, resolved, and how often it is run.

    `key` names it within its sweep and stays the same when the sweep is continued; `settings` are its `--set` pairs.
    """

    key: str
    spec: RunSpec
    repeats: int = 1
    settings: dict[str, str] = {}
    part: str | None = None


Check = Callable[[Wanted], RunSpec]
"""The resolved and checked specification of one cell. Raises `UsageError` or `InfraError` for one that cannot run."""


def resolve_cells(wanted: Sequence[Wanted], check: Check) -> tuple[Cell, ...]:
    """Every cell of the plan. Raises one error that names all cells that cannot run, and why.

    It is an `InfraError` where only the machine is at fault. An empty plan, and cells that cannot be told apart, are
    usage errors.
    """
    if not wanted:
        raise UsageError("the plan has no cell")
    cells, faults = [], []
    for one in wanted:
        try:
            spec = check(one)
        except LlmbxError as error:
            faults.append((one, error))
            continue
        key = cell_key(one, spec)
        cells.append(Cell(key=key, spec=spec, repeats=one.repeats, settings=one.settings, part=one.part))
    if faults:
        raise _refusal(faults, len(wanted))
    _distinct(cells)
    _one_launcher(cells)
    return tuple(cells)


def cell_key(wanted: Wanted, spec: RunSpec) -> str:
    """`llama3.1 8b bf16 h100 64 tp=2`: what tells the cell from the others of any sensible sweep, readable."""
    words = [spec.workload, spec.size, spec.dtype, spec.gpu_type, str(spec.gpus)]
    if wanted.request.recipe:
        words.append(f"recipe={spec.recipe}")
    words += [f"{key}={value}" for key, value in wanted.settings.items()]
    return " ".join([*words, *([f"part={wanted.part}"] if wanted.part else [])])


def asked_for(wanted: Wanted) -> str:
    """The same for a cell that cannot be resolved: what was asked."""
    request = wanted.request
    words = [request.workload, request.size, request.dtype, request.gpu_type]
    words += [f"{request.gpus} GPUs" if request.gpus else None, request.recipe]
    words += [f"{key}={value}" for key, value in wanted.settings.items()]
    return " ".join(word for word in words if word)


def _refusal(faults: list[tuple[Wanted, LlmbxError]], count: int) -> LlmbxError:
    bad = f"{len(faults)} of {count} cells cannot run" if count > 1 else "the cell cannot run"
    lines = [f"  {asked_for(one)}: {_flat(str(error))}" for one, error in faults[:SHOWN]]
    if len(faults) > SHOWN:
        lines.append(f"  … and {len(faults) - SHOWN} more")
    kind = InfraError if all(isinstance(error, InfraError) for _, error in faults) else UsageError
    return kind("\n".join([f"{bad}, so nothing was submitted:", *lines]))


def _flat(text: str) -> str:
    first, *rest = (line.strip() for line in text.splitlines())
    return f"{first} {'; '.join(rest)}".strip()


def _distinct(cells: Sequence[Cell]) -> None:
    twice = [key for key, count in Counter(cell.key for cell in cells).items() if count > 1]
    if twice:
        raise UsageError(
            f"{len(twice)} cells are in the plan more than once: {'; '.join(twice[:3])}{' …' if twice[3:] else ''}; "
            "use repeats, or give parts that differ otherwise a name"
        )


def _one_launcher(cells: Sequence[Cell]) -> None:
    by_name = {cell.spec.launcher: cell.key for cell in cells}
    if len(by_name) > 1:
        listed = ", ".join(f"{name} ({key})" for name, key in by_name.items())
        raise UsageError(f"the cells would be started in different ways: {listed}; choose one with --launcher")
