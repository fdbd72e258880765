"""Build the cases of an audit: published rows with the terms of their recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmbx.api import (
    GpuType,
    LlmbxError,
    Reference,
    RunSpec,
    UsageError,
    Workload,
    did_you_mean,
)
from llmbx.api.verbs import Config, Plugins, PublishedReferences, Request

from .terms import Case, Formula, Terms


def resolve_row(
    workload: Workload, plugins: Plugins, config: Config, *, size: str, dtype: str, gpu_type: str, gpus: int,
    recipe: str | None,
) -> RunSpec:  # fmt: skip
    """Resolve the run of a published row from the catalog alone, without environment variables or a cluster profile."""
    from llmbx.api.verbs import resolve

    request = Request(
        workload=workload.name,
        plugin=workload.plugin,
        size=size,
        dtype=dtype,
        gpu_type=gpu_type,
        gpus=gpus,
        recipe=recipe,
    )
    return resolve(request, plugins, Config(gpus=config.gpus), {}, {})


def build_cases(
    references: Sequence[Reference], workload: Workload | None, plugins: Plugins, config: Config, name: str = ""
) -> list[Case]:
    """One case per reference. Without a workload, or if a row cannot be resolved, only the values of the row are used.

    `name` is the name of the workload if `workload` is None.
    """
    gpus = GpuType.extend(config.gpus)
    if workload is None:
        return [_case_from_row(reference, name, gpus) for reference in references]
    return [_case(reference, workload, plugins, config, gpus) for reference in references]


def find_workload(published: PublishedReferences, path: str, option: str | None, plugins: Plugins) -> Workload | None:
    """The workload of a reference file: from `--workload`, from the file, or the only one that has all its rows.

    Returns None if no workload matches. Raises `UsageError` if the name is unknown or several workloads match.
    """
    name = option or published.workload
    if name is not None:
        try:
            return plugins.workload(name)
        except UsageError as error:
            if option is None and not any(name in (w.name, *w.aliases) for w in plugins.workloads):
                return None
            raise UsageError(f"{path}: {error}" if option is None else f"--workload: {error}") from None
    matching = [workload for workload in plugins.workloads if _has_all_rows(workload, published.references)]
    if len(matching) > 1:
        names = " or ".join(workload.name for workload in matching)
        raise UsageError(f"{path}: matches several workloads; select one with --workload {names}")
    return matching[0] if matching else None


def unresolved_names(
    references: Sequence[Reference], workload: Workload | None, named: str | None, plugins: Plugins, config: Config
) -> list[str]:
    """Errors about names in these rows that the catalog does not know. `named` is the workload name in the file."""
    if workload is None and named is not None:
        names = [name for listed in plugins.workloads for name in (listed.name, *listed.aliases)]
        return [f"no workload named '{named}'{did_you_mean(named, names)}"]
    if workload is None:
        sizes = {size for listed in plugins.workloads for size in listed.sizes}
        unknown = dict.fromkeys(r.size for r in references if sizes and r.size not in sizes)
        return [f"no workload has a size '{size}'{did_you_mean(size, sizes)}" for size in unknown]
    errors: dict[str, None] = {}
    for reference in references:
        try:
            _resolve(reference, workload, plugins, config)
        except LlmbxError as error:
            errors[str(error)] = None
    return list(errors)


def flops_formula(spec: RunSpec, plugins: Plugins) -> Formula:
    """The FLOPs formula of the framework as a function of the model shape."""
    framework = plugins.framework(spec.plugin)
    return lambda model: framework.compute_flops(spec.replace(model=model))


def measurement_window(policy: str) -> tuple[int, int] | None:
    """First and last step of an `A-B` window; None for other policies."""
    first, dash, last = policy.partition("-")
    return (int(first), int(last)) if dash else None


def _case(
    reference: Reference, workload: Workload, plugins: Plugins, config: Config, gpus: Mapping[str, GpuType]
) -> Case:
    r = reference
    try:
        spec = _resolve(r, workload, plugins, config)
    except LlmbxError:
        # The row is not in the catalog: only its own values are known.
        return _case_from_row(r, workload.name, gpus)
    peak = r.peak_tflops or (spec.peak.tflops if spec.peak else None)
    terms = Terms(
        gpus=r.gpus,
        sequence_length=r.sequence_length or spec.model.sequence_length,
        batch=r.global_batch_size or spec.global_batch_size,
        step_time_s=r.step_time_s,
        model=spec.model,
        convention=r.convention,
        flops=r.model_flops,
        peak_tflops=peak,
    )
    return Case(workload.name, r, terms, flops_formula(spec, plugins), measurement_window(spec.window))


def _resolve(reference: Reference, workload: Workload, plugins: Plugins, config: Config) -> RunSpec:
    r = reference
    return resolve_row(
        workload, plugins, config, size=r.size, dtype=r.dtype, gpu_type=r.gpu_type, gpus=r.gpus, recipe=r.recipe
    )


def _case_from_row(reference: Reference, workload: str, gpus: Mapping[str, GpuType]) -> Case:
    r = reference
    peak = GpuType.peak_of(r.gpu_type, r.dtype, gpus)
    terms = Terms(
        gpus=r.gpus,
        sequence_length=r.sequence_length,
        batch=r.global_batch_size,
        step_time_s=r.step_time_s,
        convention=r.convention,
        flops=r.model_flops,
        peak_tflops=r.peak_tflops or (peak.tflops if peak else None),
    )
    return Case(workload, r, terms, lambda model: None)


def _has_all_rows(workload: Workload, references: Sequence[Reference]) -> bool:
    recipes = {recipe.name for recipe in workload.recipes}
    return bool(references) and all(
        r.size in workload.sizes and (r.recipe is None or r.recipe in recipes) for r in references
    )
