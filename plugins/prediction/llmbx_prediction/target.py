"""From the words on the command line to a configuration: a workload of the catalog, or a model of the table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from llmbx.api import RunSpec, UsageError

from .atlas.near import generation, gpus_apart
from .borrowed import bases, fitted, of_nearest
from .case import Case
from .cost.model import Model, of_shape
from .cost.rates import LOW, rates
from .cost.rates import known as known_rates
from .question import Question, as_a_run, check_stack, model_of, on_known_gpus, on_own_type
from .settings import CHANGED, changed_by, divisible, reshaped, split
from .specification import dtype_of, of_spec
from .validity import refusal

if TYPE_CHECKING:
    from llmbx.api import Workload
    from llmbx.api.verbs import Workspace

    from .atlas.row import Row


@dataclasses.dataclass(frozen=True)
class Target:
    """A configuration, and where the values come from that the user did not set. `spec` is the catalog's, if any.

    `published` says what is published for exactly this work, in one line.
    """

    case: Case
    base: str
    spec: RunSpec | None = None
    published: str | None = None


def target(question: Question, rows: Sequence[Row], workspace: Workspace) -> Target:
    """The configuration of the question: the catalog's, else the nearest published one, with the changes of --set.

    Raises `UsageError` if GPU type or number of GPUs is missing and not the only one, and for unknown or impossible
    settings.
    """
    run = as_a_run(question, workspace)
    is_a_run = run is not question
    question = run if is_a_run else on_own_type(question, workspace)
    model, workload, size = model_of(question, workspace)
    if workload is not None and question.gpu_type is not None and question.gpu_type not in known_rates():
        return _without_figures(question, workload, workspace)
    question = on_known_gpus(question, model, rows, _scales(workload, size, question.recipe) if workload else {})
    assert question.gpu_type is not None
    rates(question.gpu_type).peak(dtype_of(question.dtype or "bf16"))
    check_stack(question.stack, rows)
    shape, settings = split(question.settings)
    model = reshaped(model, shape)
    if any(row.stack == question.stack for row in bases(model, question.gpu_type, rows)):
        rows, workload = [row for row in rows if row.stack == question.stack], None
    spec = _resolved(question, workload, size, workspace) if workload is not None else None
    if spec is not None and workload is not None and (is_a_run or not _nearer(spec, model, question, rows)):
        model = reshaped(of_shape(spec.model, f"{workload.name}-{spec.size}"), shape)  # a row may have fewer layers
        return _of_catalog(spec, model, workload, question, settings, workspace)
    if question.recipe is not None:
        raise UsageError(
            f"--recipe {question.recipe}: no configuration of {question.names[-1]} for {question.gpu_type}"
        )
    case, base = of_nearest(model, question, rows)
    case = case.replace(stack=question.stack or case.stack)
    if "gbs" in settings:
        return Target(changed_by(case, settings), base)
    whole = {**settings, "gbs": str(divisible(case, settings))}
    return Target(changed_by(case, whole), base)


def _without_figures(question: Question, workload: Workload, workspace: Workspace) -> Target:
    """What a run would use on a GPU type without figures, where only the memory can be predicted.

    Raises `UsageError` if the run would be refused.
    """
    from llmbx.api.verbs import Request

    _, size = workspace.plugins.workload_and_size(question.names[-1], question.size)
    request = Request(workload=workload.name, plugin=workload.plugin, size=size, dtype=question.dtype,
                      gpu_type=question.gpu_type, gpus=question.gpus, recipe=question.recipe)  # fmt: skip
    spec = workspace.resolve(request)
    for finding in spec.findings:
        if not finding.warning:
            raise UsageError(f"{finding.problem}: {finding.fix}")
    shape, settings = split(question.settings)
    model = reshaped(of_shape(spec.model, f"{workload.name}-{spec.size}"), shape)
    question = dataclasses.replace(question, gpu_type=spec.gpu_type, gpus=spec.gpus)
    return _of_catalog(spec, model, workload, question, settings, workspace)


def _nearer(spec: RunSpec, model: Model, question: Question, rows: Sequence[Row]) -> bool:
    """Whether the atlas has a layout of this generation of GPUs, and the catalog can run none on this GPU type."""
    assert question.gpu_type is not None
    mine = generation(question.gpu_type)
    if question.recipe is not None or spec.gpu_type == question.gpu_type or generation(spec.gpu_type) == mine:
        return False
    return any(generation(row.gpu_type) == mine for row in bases(model, question.gpu_type, rows))


def _of_catalog(
    spec: RunSpec,
    model: Model,
    workload: Workload,
    question: Question,
    settings: Mapping[str, str],
    workspace: Workspace,
) -> Target:
    """The catalog's configuration, scaled to the requested GPUs, with the changes. Raises `UsageError` for a change
    that the framework refuses.
    """
    assert question.gpu_type is not None and question.gpus is not None
    base = f"catalog, recipe {spec.recipe}, row of {spec.row_gpu_type}"
    reshaped = model.name.endswith(CHANGED) or model.layers != spec.model.layers
    row = of_spec(spec, model, workload, question.dtype, question.release)
    row = row.replace(chosen=not reshaped and not spec.layout_of)
    mine = row.replace(gpu_type=question.gpu_type, gpus=question.gpus)
    case = row if mine == row else fitted(mine, row)
    batch: dict[str, str] = {}
    if question.gpus != spec.row_gpus:
        base += f" for {spec.row_gpus} GPUs, scaled"
        batch = {"gbs": str(divisible(case, settings))}
    if any(getattr(case, name) != getattr(row, name) for name in ("tp", "pp", "cp", "ep", "etp")):
        base += ", in another layout, since that of the row does not fit these GPUs (`llmbx run` needs it from --set)"
    case = case.replace(stack=question.stack or case.stack)
    changed = changed_by(case, {**batch, **settings})
    own = case.stack == row.stack and spec.gpu_type == question.gpu_type and not model.name.endswith(CHANGED)
    framework = workspace.plugins.framework(spec.plugin)
    if question.settings and own and (problem := refusal(changed, spec, framework.check_spec)):
        raise UsageError(problem)
    unchanged = changed == row and question.release is None and question.dtype in (None, spec.dtype)
    published = _published(spec, workload) if unchanged else None
    return Target(changed, base, spec.replace(gpu_type=question.gpu_type), published)


def _published(spec: RunSpec, workload: Workload) -> str:
    row = spec.exact_row(workload)
    if row is None or row.step_time_s is None:
        return f"none: {spec.why_no_figure(workload)}"
    return f"{row.step_time_s:g} s per step, {row.source}"


def _resolved(question: Question, workload: Workload | None, size: str | None, workspace: Workspace) -> RunSpec | None:
    """The catalog's configuration for this GPU type and scale, else for the nearest scale or another type.

    None if it has none.
    """
    from llmbx.api.verbs import Request

    assert workload is not None and question.gpu_type is not None and question.gpus is not None
    named = dtype_of(question.dtype) if question.dtype else None
    dtypes = list(dict.fromkeys((named, LOW.get(named, named)))) if named else [None]
    for gpu_type, gpus, dtype in _tries(
        question.gpu_type, question.gpus, dtypes, _scales(workload, size, question.recipe)
    ):
        request = Request(workload=workload.name, plugin=workload.plugin, size=size, dtype=dtype, gpu_type=gpu_type,
                          gpus=gpus, recipe=question.recipe)  # fmt: skip
        try:
            spec = workspace.resolve(request)
        except UsageError:
            continue
        if all(finding.warning for finding in spec.findings):
            return spec
    return None


def _scales(workload: Workload, size: str | None, recipe: str | None) -> dict[str, set[int]]:
    """The numbers of GPUs of a size's rows, by GPU type."""
    from llmbx.api.verbs import scales_of

    scales: dict[str, set[int]] = {}
    for row in (row for each in workload.recipes if recipe in (None, each.name) for row in each.rows):
        if row.size == size:
            for gpu_type in row.gpu_types:
                scales.setdefault(gpu_type, set()).update(scales_of(row.gpus))
    return scales


def _tries(
    gpu_type: str, gpus: int, dtypes: Sequence[str | None], scales: Mapping[str, set[int]]
) -> Iterator[tuple[str, int, str | None]]:
    """The GPU type asked for with its nearest scales, then the other types with theirs, the most similar first."""
    others = sorted(
        (name for name in scales if name != gpu_type and name in known_rates()),
        key=lambda name: (gpus_apart(gpu_type, name), name),
    )
    for candidate in (gpu_type, *others):
        nearest = sorted(scales.get(candidate, ()), key=lambda count: abs(math.log2(count / gpus)))
        yield from ((candidate, count, dtype) for count in dict.fromkeys((gpus, *nearest)) for dtype in dtypes)
