"""Configuration rows: does what they print (DP, GA, the letters) follow from itself, and do the layers split?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llmbx.catalog.scales import evaluate, scales
from llmbx.catalog.workloads import MINI
from llmbx.config.profiles import Config
from llmbx.model import Parallelism, Recipe, Row, RunSpec, Scalar, Workload
from llmbx.plugins.manager import Plugins
from llmbx.resolve.rules import common_findings

from .gather import resolve_row
from .values import RowDispute

COMPUTED = {"dp": "GPUs / (TP x PP x CP)", "ga": "GBS / (MBS x DP)"}
"""Columns that follow from the others."""


def disputed_rows(workload: Workload, plugins: Plugins, config: Config) -> list[RowDispute]:
    """Every printed value of the workload's rows that the others contradict, or that breaks a rule of a run."""
    return [
        dispute
        for recipe in workload.recipes
        for row in recipe.rows
        if row.size != MINI
        for spec in _specs(workload, recipe, row, plugins, config)
        for dispute in _disputes(workload, recipe, row, spec, plugins)
    ]


def _specs(workload: Workload, recipe: Recipe, row: Row, plugins: Plugins, config: Config) -> Iterable[RunSpec]:
    """The row at each of its dtypes, GPU types and scales."""
    for dtype in row.dtypes:
        for gpu_type in row.gpu_types:
            for gpus in scales(row.gpus):
                yield resolve_row(
                    workload, plugins, config, size=row.size, dtype=dtype, gpu_type=gpu_type, gpus=gpus,
                    recipe=recipe.name,
                )  # fmt: skip


def _disputes(workload: Workload, recipe: Recipe, row: Row, spec: RunSpec, plugins: Plugins) -> Iterable[RowDispute]:
    letters = {key: evaluate_printed(value, spec.gpus) for key, value in row.printed.items()}
    actual = {key: value_of(spec, key) for key in letters}
    problems = _problems(spec, letters, plugins)
    differing = [key for key, printed in letters.items() if printed != actual[key]]
    for key in differing:
        problem = problems.get(key) or (None if key in COMPUTED else "; ".join(problems.values()) or None)
        yield _dispute(workload, recipe, spec, key, (row.printed[key], letters[key]), actual[key], problem)
    for rule, problem in problems.items() if not differing else ():
        yield _dispute(workload, recipe, spec, rule, (value_of(spec, rule),) * 2, None, problem)


def _problems(spec: RunSpec, printed: dict[str, Scalar], plugins: Plugins) -> dict[str, str]:
    """What the run with the printed letters breaks, by rule."""
    as_printed = with_letters(spec, printed)
    found = [*common_findings(as_printed, here=False), *plugins.framework(spec.plugin).check_spec(as_printed)]
    return {finding.rule: finding.problem for finding in found if not finding.warning}


def with_letters(spec: RunSpec, letters: dict[str, Scalar]) -> RunSpec:
    """The run with these letters in place of its own."""
    degrees = {key: value for key, value in letters.items() if key in Parallelism.__struct_fields__}
    changes: dict[str, Any] = {"parallelism": spec.parallelism.replace(**degrees)}
    names = {"ga": "gradient_accumulation", "mbs": "micro_batch_size", "gbs": "global_batch_size",
             "cg": "cuda_graphs", "rl": "recompute_layers", "ol": "offload_layers"}  # fmt: skip
    changes.update({names[key]: value for key, value in letters.items() if key in names})
    if "layers" in letters:
        changes["model"] = spec.model.replace(layers=letters["layers"])
    return spec.replace(**changes)


def value_of(spec: RunSpec, key: str) -> Scalar:
    """The value that the run has for a letter of the recipes, None for what is no letter."""
    names = {"ga": spec.gradient_accumulation, "mbs": spec.micro_batch_size, "gbs": spec.global_batch_size,
             "layers": spec.model.layers, "cg": spec.cuda_graphs, "rl": spec.recompute_layers,
             "ol": spec.offload_layers}  # fmt: skip
    value: Scalar = names[key] if key in names else getattr(spec.parallelism, key, None)
    return value


def evaluate_printed(value: Scalar, gpus: int) -> Scalar:
    """A printed value at a scale: `GPUs/2` is a number, everything else stands."""
    return evaluate(value, gpus) if isinstance(value, str) and value.startswith("GPUs") else value


def _dispute(
    workload: Workload, recipe: Recipe, spec: RunSpec, field: str, printed: tuple[Scalar, Scalar], right: Scalar,
    problem: str | None,
) -> RowDispute:  # fmt: skip
    how = f"{COMPUTED[field]} = {right}" if field in COMPUTED else None
    as_printed, value = printed
    if isinstance(as_printed, str) and as_printed != value:
        how = f"{as_printed} is {value}; {how}" if how else f"{as_printed} is {value}"
    return RowDispute(
        source=recipe.title,
        workload=workload.name,
        recipe=recipe.name,
        size=spec.size,
        dtype=spec.dtype,
        gpu_type=spec.gpu_type,
        gpus=spec.gpus,
        field=field,
        published=value,
        recomputed=right,
        explanation=problem or how or next(iter(spec.corrected), None),
    )
