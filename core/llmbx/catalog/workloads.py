"""Read workloads from TOML, and find the configuration row for a request."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..model import Finding, Recipe, Row, Setting, Value, Workload
from ..model.settings import Settings, fields
from ..model.workload import ScalarType
from ..phrases import did_you_mean, either
from .index import is_listing, kept
from .scaled import scaled, scaled_finding
from .scales import ANY, admits, scales

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path


MINI = "mini"

CPU, CPU_DTYPE = "cpu", "fp32"
"""Default for minis on CPUs: FP32 is fast on every CPU; BF16 is several times slower without special instructions."""

DTYPES = {"bfloat16": "bf16", "float32": "fp32", "fp8_mx": "mxfp8", "fp8-mx": "mxfp8", "fp4": "nvfp4"}


def dtype_name(name: str) -> str:
    """The name of a dtype that other programs call `name`: bf16 for bfloat16; else `name`."""
    return DTYPES.get(name, name)


def size_name(name: str, sizes: Iterable[str]) -> str:
    """The size that is meant by its first part: 30b-a3b for 30b if no other one begins so; else `name`."""
    begin_so = [size for size in sizes if size == name or size.startswith(f"{name}-")]
    return begin_so[0] if len(begin_so) == 1 else name


class Choice(Value, frozen=True):
    """The row closest to the request; `findings` say what the catalog does not have.

    `scaled_from` is the number of GPUs of a row that was scaled to the requested one.
    """

    recipe: Recipe
    row: Row
    scaled_from: int | None = None
    findings: tuple[Finding, ...] = ()


def load_workload(
    path: Path | Traversable, references: Path | Traversable | None = None, settings: type[Settings] | None = None
) -> Workload:
    """Read the workload in the TOML file `path`, with the published results in the file `references`.

    `settings` is the plugin's settings class, if the file sets fields of it. Raises `UsageError` with the file and the
    key: unknown, missing or ill-typed keys (with a suggestion), an undeclared size or setting, an invalid scale or
    expression.
    """
    from ..toml_file import read_toml
    from .references import Published
    from .validation import check_workload

    workload = read_toml(path, Workload)
    if references is not None:
        published = Published.read(references)
        workload = workload.replace(
            references=(*workload.references, *published.references),
            examples=(*workload.examples, *published.examples),
        )
    if settings is not None:
        workload = with_declared(workload, settings, str(path))
    check_workload(workload, str(path))
    return workload


@functools.cache
def declared(kind: type[Settings]) -> Mapping[str, Setting]:
    """The fields of a framework's settings class as settings of its workloads; tables are left out."""
    defaults = kind()
    types: dict[type, ScalarType] = {bool: "bool", int: "int", float: "float", str: "str"}
    return {
        field.name: Setting(
            default=getattr(defaults, field.name), help=field.option.help, choices=field.choices,
            optional=field.optional, type=types[field.kind],
        )
        for field in fields(kind) if field.kind is not dict
    }  # fmt: skip


def with_declared(workload: Workload, kind: type[Settings], source: str) -> Workload:
    """Add the fields of the plugin's settings class to the workload's settings.

    Raises `UsageError` with `source` if the workload declares another setting of the same name, or if a recipe or row
    sets a field to an invalid value.
    """
    from ..toml_file import convert

    shared = declared(kind)
    for key, setting in workload.settings.items():
        if shared.get(key, setting) != setting:
            raise UsageError(f"{source}: at settings.{key}: {kind.__name__} has a field of this name")
    for number, recipe in enumerate(workload.recipes):
        place = f"recipes[{number}]"
        chosen = {f"{place}.rows[{index}]": row.settings for index, row in enumerate(recipe.rows)}
        for where, values in {place: recipe.settings, **chosen}.items():
            convert({key: values[key] for key in values if key in shared}, kind, f"{source}: at {where}.settings")
    return workload.replace(settings={**shared, **workload.settings})


def load_workloads(root: Path, names: Iterable[str], settings: type[Settings] | None = None) -> list[Workload]:
    """Read the workloads `root`/catalog/NAME.toml, each with `root`/references/NAME.toml if that file exists.

    `settings` is the plugin's settings class, if it has one. Raises `UsageError` like `load_workload`.
    """
    pairs = [(root / "catalog" / f"{name}.toml", root / "references" / f"{name}.toml") for name in names]

    def load() -> list[Workload]:
        return [load_workload(file, published if published.is_file() else None, settings) for file, published in pairs]

    return kept(root, [file for pair in pairs for file in pair], load) if is_listing() else load()


def newest_first(recipes: Iterable[Recipe]) -> list[Recipe]:
    """Recipes by release, newest first ("25.10" before "25.04.02"); equal releases keep the order of the file."""
    return sorted(recipes, key=lambda recipe: _version(recipe.released), reverse=True)


def rows_of(workload: Workload, size: str | None = None, recipe: str | None = None) -> Iterator[tuple[Recipe, Row]]:
    """Configuration rows, newest recipe first; of one size or recipe if set."""
    for candidate in newest_first(workload.recipes):
        if recipe in (None, candidate.name):
            yield from ((candidate, row) for row in candidate.rows if size in (None, row.size))


def known_gpu_types(workload: Workload, size: str | None = None, recipe: str | None = None) -> list[str]:
    """GPU types that have a row, newest recipe first; "any" if a row applies to every type."""
    return _unique(name for _, row in rows_of(workload, size, recipe) for name in row.gpu_types)


def known_dtypes(workload: Workload, size: str, gpu_type: str, recipe: str | None = None) -> list[str]:
    """Dtypes that have a row for this size and GPU type, newest recipe first."""
    return _unique(d for _, row in rows_of(workload, size, recipe) if _has_gpu(row, gpu_type) for d in row.dtypes)


def known_scales(
    workload: Workload, size: str, dtype: str, gpu_type: str, recipe: str | None = None
) -> list[int]:  # fmt: skip
    """Numbers of GPUs that have a row for this size, dtype and GPU type, ascending; empty if any number is allowed."""
    rows = [row for _, row in rows_of(workload, size, recipe) if _has_gpu(row, gpu_type) and dtype in row.dtypes]
    return sorted({count for row in rows for count in scales(row.gpus)})


def default_dtype(
    workload: Workload, size: str, gpu_type: str, gpus: int | None = None, recipe: str | None = None,
    computes: Callable[[str], bool] = bool,
) -> str | None:  # fmt: skip
    """The dtype of a run that sets none, or None if there is no default.

    The newest recipe with this size, GPU type and scale (else any scale) decides, among the dtypes that the GPU
    `computes`: FP32 for a mini on a CPU, so that it does the same
    work in about the same time on every CPU; else the workload's default if the recipe has it, else the recipe's only
    dtype, or the first one for a mini or a part of a model.
    """
    for candidate in newest_first(workload.recipes):
        if recipe not in (None, candidate.name):
            continue
        rows = [row for row in candidate.rows if row.size == size and _has_gpu(row, gpu_type)]
        of_scale = [row for row in rows if gpus is None or admits(row.gpus, gpus)]
        dtypes = _unique(d for row in of_scale for d in row.dtypes if computes(d))
        if (size, gpu_type) == (MINI, CPU) and CPU_DTYPE in dtypes:
            return CPU_DTYPE
        if workload.default_dtype in dtypes:
            return workload.default_dtype
        if dtypes:
            first = size == MINI or workload.sizes[size].proxy
            return dtypes[0] if len(dtypes) == 1 or first else None
    return default_dtype(workload, size, gpu_type, None, recipe, computes) if gpus is not None else None


def choose(workload: Workload, *, size: str, dtype: str, gpu_type: str, gpus: int, recipe: str | None = None) -> Choice:
    """The named recipe, or the newest one with this size, dtype, GPU type and scale, and its row.

    A GPU type or dtype that is not in the catalog becomes a finding, returned with the nearest row, and a row is scaled
    to a number of GPUs that is not in the catalog.

    Raises `UsageError` for an unknown size or recipe.
    """
    require_size(workload, size, recipe)
    if gpus < 1:
        raise UsageError(f"--gpus {gpus}: expected a number >= 1")
    what = f"{workload.name} {size}" + (f" in recipe {recipe}" if recipe else "")
    rows, findings = _narrow(workload, list(rows_of(workload, size, recipe)), what, dtype, gpu_type)
    choice = _of_scale(rows, gpus, f"{what} {dtype} on {gpu_type}")
    findings += choice.findings
    if recipe and not all(finding.warning for finding in findings):
        newest = choose(workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=gpus)
        if not newest.findings:
            fix = f"{findings[0].fix}, or use --recipe {newest.recipe.name}"
            findings[0] = findings[0].replace(fix=fix)
    return choice.replace(findings=tuple(findings))


def _of_scale(rows: list[tuple[Recipe, Row]], gpus: int, what: str) -> Choice:
    """The first row with this number of GPUs, else the nearest one, scaled."""
    for recipe, row in rows:
        if admits(row.gpus, gpus):
            findings = (scaled_finding(row.scaled_from, gpus),) if row.scaled_from else ()
            return Choice(recipe=recipe, row=row, scaled_from=row.scaled_from, findings=findings)
    made = scaled([(recipe, row) for recipe, row in rows if not row.scaled_from], gpus, what)
    return Choice(recipe=made.recipe, row=made.row, scaled_from=made.gpus, findings=(made.finding,))


def walltime_minutes(recipe: Recipe, size: str, gpu_type: str) -> int | None:
    """The recipe's time limit in minutes for the size, else for the GPU type, else its default; None if it has none."""
    limits = recipe.walltime_minutes
    return next((limits[key] for key in (size, gpu_type, "default") if key in limits), None)


def require_recipe(workload: Workload, recipe: str | None) -> None:
    """Raise `UsageError` if the workload does not have this recipe; None stands for any."""
    names = [candidate.name for candidate in workload.recipes]
    if recipe is not None and recipe not in names:
        raise UsageError(f"{workload.name} has no recipe '{recipe}'{did_you_mean(recipe, names)}")


def require_size(workload: Workload, size: str, recipe: str | None) -> None:
    """Raise `UsageError` for a recipe or size that the workload does not have, and for a recipe without this size."""
    require_recipe(workload, recipe)
    if size not in workload.sizes:
        raise UsageError(f"{workload.name} has no size '{size}'{did_you_mean(size, workload.sizes)}")
    if not any(rows_of(workload, size, recipe)):
        others = ", ".join(_unique(candidate.name for candidate, _ in rows_of(workload, size)))
        raise UsageError(f"recipe {recipe} of {workload.name} has no size {size} (recipes with it: {others})")


def _narrow(
    workload: Workload, rows: list[tuple[Recipe, Row]], what: str, dtype: str, gpu_type: str
) -> tuple[list[tuple[Recipe, Row]], list[Finding]]:
    """The rows that match the GPU type, then the dtype; a criterion that no row matches is skipped and becomes a
    finding.
    """
    findings = []
    of_gpu = [(r, row) for r, row in rows if _has_gpu(row, gpu_type)]
    if not of_gpu:
        choices = _unique(name for _, row in rows for name in row.gpu_types)
        problem = no_configuration(workload, rows[0][1].size, what, gpu_type)
        findings.append(_lacks("gpu_type", problem, choices))
        of_gpu = _least_memory(workload, rows)
    of_dtype = [(r, row) for r, row in of_gpu if dtype in row.dtypes]
    if not of_dtype:
        choices = _unique(d for _, row in of_gpu for d in row.dtypes)
        findings.append(_lacks("dtype", f"{what} on {gpu_type} has no {dtype} configuration", choices))
        of_dtype = of_gpu
    return of_dtype, findings


def no_configuration(workload: Workload, size: str, what: str, gpu_type: str) -> str:
    """The problem of a size (`what` in messages) without rows for a GPU type; for a CPU with its reason, if any."""
    why = workload.sizes[size].needs_gpu if gpu_type == CPU else ""
    return f"{what} has no configuration for {gpu_type}" + (f" ({why})" if why else "")


def _lacks(rule: str, problem: str, available: list[str]) -> Finding:
    return Finding(rule=rule, problem=problem, fix=f"use --{rule.replace('_', '-')} {either(available)}")


def _has_gpu(row: Row, gpu_type: str) -> bool:
    return gpu_type in row.gpu_types or ANY in row.gpu_types


def _least_memory(workload: Workload, rows: list[tuple[Recipe, Row]]) -> list[tuple[Recipe, Row]]:
    """Rows by the memory of their GPU, smallest first: what runs there is most likely to run anywhere."""
    need = workload.minimum_gpu_memory_gb
    return sorted(rows, key=lambda pair: min(need.get(name, math.inf) for name in pair[1].gpu_types))


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
