"""Check configuration rows: printed values must agree with each other and pass the rules of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llmbx.api import Parallelism, Recipe, Row, RunSpec, Scalar, Workload
from llmbx.api.verbs import Config, Plugins, common_findings, evaluate_scale, scales_of

from .cases import resolve_row
from .findings import UNEXPLAINED, RowDispute

COMPUTED = {"dp": "GPUs / (TP x PP x CP)", "ga": "GBS / (MBS x DP)"}
"""Columns that are computed from the others."""


def disputed_rows(workload: Workload, plugins: Plugins, config: Config) -> list[RowDispute]:
    """Printed values of the workload's rows that contradict the others or violate a rule of a run."""
    return [
        dispute
        for recipe in workload.recipes
        for row in recipe.rows
        if row.size != "mini"
        for spec in _specs(workload, recipe, row, plugins, config)
        for dispute in _disputes(workload, recipe, row, spec, plugins)
    ]


def _specs(workload: Workload, recipe: Recipe, row: Row, plugins: Plugins, config: Config) -> Iterable[RunSpec]:
    """The runs of the row: every dtype, GPU type and scale."""
    for dtype in row.dtypes:
        for gpu_type in row.gpu_types:
            for gpus in scales_of(row.gpus):
                yield resolve_row(
                    workload, plugins, config, size=row.size, dtype=dtype, gpu_type=gpu_type, gpus=gpus,
                    recipe=recipe.name,
                )  # fmt: skip


def _disputes(workload: Workload, recipe: Recipe, row: Row, spec: RunSpec, plugins: Plugins) -> Iterable[RowDispute]:
    values = {key: evaluate_printed(value, spec.gpus) for key, value in row.printed.items()}
    actual = {key: value_of(spec, key) for key in values}
    problems = _problems(spec, values, plugins)
    differing = [key for key, printed in values.items() if printed != actual[key]]
    for key in differing:
        problem = problems.get(key) or (None if key in COMPUTED else "; ".join(problems.values()) or None)
        yield _dispute(workload, recipe, spec, key, (row.printed[key], values[key]), actual[key], problem)
    for rule, problem in problems.items() if not differing else ():
        yield _dispute(workload, recipe, spec, rule, (value_of(spec, rule),) * 2, None, problem)


def _problems(spec: RunSpec, printed: dict[str, Scalar], plugins: Plugins) -> dict[str, str]:
    """The problems of the run with the printed values, by rule."""
    as_printed = with_values(spec, printed)
    findings = [*common_findings(as_printed, here=False), *plugins.framework(spec.plugin).check_spec(as_printed)]
    return {finding.rule: finding.problem for finding in findings if not finding.warning}


def with_values(spec: RunSpec, values: dict[str, Scalar]) -> RunSpec:
    """The run with the printed values instead of its own."""
    degrees = {key: value for key, value in values.items() if key in Parallelism.__struct_fields__}
    changes: dict[str, Any] = {"parallelism": spec.parallelism.replace(**degrees)}
    names = {"ga": "gradient_accumulation", "mbs": "micro_batch_size", "gbs": "global_batch_size",
             "cg": "cuda_graphs", "rl": "recompute_layers", "ol": "offload_layers"}  # fmt: skip
    changes.update({names[key]: value for key, value in values.items() if key in names})
    if "layers" in values:
        changes["model"] = spec.model.replace(layers=values["layers"])
    return spec.replace(**changes)


def value_of(spec: RunSpec, key: str) -> Scalar:
    """The value of a recipe column in the run; None for an unknown column."""
    names = {"ga": spec.gradient_accumulation, "mbs": spec.micro_batch_size, "gbs": spec.global_batch_size,
             "layers": spec.model.layers, "cg": spec.cuda_graphs, "rl": spec.recompute_layers,
             "ol": spec.offload_layers}  # fmt: skip
    value: Scalar = names[key] if key in names else getattr(spec.parallelism, key, None)
    return value


def evaluate_printed(value: Scalar, gpus: int) -> Scalar:
    """Evaluate a printed value such as `GPUs/2` at a scale. Other values are returned unchanged."""
    return evaluate_scale(value, gpus) if isinstance(value, str) and value.startswith("GPUs") else value


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
        reason=problem or how or "; ".join(spec.corrected) or UNEXPLAINED,
    )
