"""From plugins and reference files to cases: each published row with the terms that its recipe gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llmbx.catalog import hardware
from llmbx.catalog.hardware import GpuType
from llmbx.catalog.references import Published
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.errors import LlmbxError, UsageError, did_you_mean
from llmbx.model import Reference, RunSpec, Workload
from llmbx.plugins.manager import Plugins

from .explain import Known
from .terms import Case, Formula, Terms


def resolve_row(
    workload: Workload, plugins: Plugins, config: Config, *, size: str, dtype: str, gpu_type: str, gpus: int,
    recipe: str | None,
) -> RunSpec:  # fmt: skip
    """The run that the catalog has for this row, from nothing but the catalog (no environment, no cluster profile)."""
    from llmbx.resolve import resolve

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


def cases_of(
    references: Sequence[Reference], workload: Workload | None, plugins: Plugins, config: Config, name: str = ""
) -> list[Case]:
    """A case for each reference. Without a workload (or for a row it cannot resolve) the references' own terms stand.

    `name` stands for the workload's where there is none.
    """
    gpus = hardware.extend(config.gpus)
    if workload is None:
        return [_bare(reference, name, gpus) for reference in references]
    return [_case(reference, workload, plugins, config, gpus) for reference in references]


def workload_of(published: Published, path: str, asked: str | None, plugins: Plugins) -> Workload | None:
    """The workload that a reference file is of: the asked one, the one it names, or the only one that has its rows."""
    wanted = asked or published.workload
    if wanted is not None:
        try:
            return plugins.workload(wanted)
        except UsageError as error:
            if asked is None and not any(wanted in (w.name, *w.aliases) for w in plugins.workloads):
                return None
            raise UsageError(f"{path}: {error}" if asked is None else f"--workload: {error}") from None
    fitting = [workload for workload in plugins.workloads if _has_rows(workload, published.references)]
    if len(fitting) > 1:
        names = " or ".join(workload.name for workload in fitting)
        raise UsageError(f"{path}: fits several workloads; say which with --workload {names}")
    return fitting[0] if fitting else None


def wrong_words(
    references: Sequence[Reference], workload: Workload | None, named: str | None, plugins: Plugins, config: Config
) -> list[str]:
    """What about these rows the catalog does not know, each with what may have been meant; `named` is the file's."""
    if workload is None and named is not None:
        names = [name for known in plugins.workloads for name in (known.name, *known.aliases)]
        return [f"no workload named '{named}'{did_you_mean(named, names)}"]
    if workload is None:
        sizes = {size for known in plugins.workloads for size in known.sizes}
        wrong = dict.fromkeys(r.size for r in references if sizes and r.size not in sizes)
        return [f"no workload has a size '{size}'{did_you_mean(size, sizes)}" for size in wrong]
    found: dict[str, None] = {}
    for reference in references:
        try:
            _resolved(reference, workload, plugins, config)
        except LlmbxError as error:
            found[str(error)] = None
    return list(found)


def known_of(cases: Sequence[Case], workloads: Iterable[Workload], gpus: Mapping[str, GpuType]) -> Known:
    """What the search for explanations may try."""
    vocabularies: dict[int, str] = {}
    for workload in workloads:
        for size in (size for name, size in workload.sizes.items() if name != "mini"):
            vocabularies.setdefault(size.model.vocab_size, workload.title)
    return Known(cases=cases, gpus=gpus, vocabularies=vocabularies)


def formula_of(spec: RunSpec, plugins: Plugins) -> Formula:
    """The framework's FLOPs formula as a function of the shape alone."""
    framework = plugins.framework(spec.plugin)
    return lambda model: framework.compute_flops(spec.replace(model=model))


def measuring_window(policy: str) -> tuple[int, int] | None:
    """First and last step of an `A-B` window, None for the other policies."""
    first, dash, last = policy.partition("-")
    return (int(first), int(last)) if dash else None


def _case(
    reference: Reference, workload: Workload, plugins: Plugins, config: Config, gpus: Mapping[str, GpuType]
) -> Case:
    r = reference
    try:
        spec = _resolved(r, workload, plugins, config)
    except LlmbxError:
        # The source has a row that the catalog has not: only its own terms are known.
        return _bare(r, workload.name, gpus)
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
    return Case(workload.name, r, terms, formula_of(spec, plugins), measuring_window(spec.window))


def _resolved(reference: Reference, workload: Workload, plugins: Plugins, config: Config) -> RunSpec:
    r = reference
    return resolve_row(
        workload, plugins, config, size=r.size, dtype=r.dtype, gpu_type=r.gpu_type, gpus=r.gpus, recipe=r.recipe
    )


def _bare(reference: Reference, workload: str, gpus: Mapping[str, GpuType]) -> Case:
    r = reference
    peak = hardware.peak(r.gpu_type, r.dtype, gpus)
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


def _has_rows(workload: Workload, references: Sequence[Reference]) -> bool:
    recipes = {recipe.name for recipe in workload.recipes}
    return bool(references) and all(
        r.size in workload.sizes and (r.recipe is None or r.recipe in recipes) for r in references
    )
