"""What the command line asks for: the model, its GPUs, and what is left open."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from llmbx.api import GpuType, UsageError, did_you_mean

from .case import BARE_STACK, ENGINES, OTHER_STACK
from .cost.model import Model, known, of_shape
from .cost.rates import known as known_rates
from .cost.rates import rates

if TYPE_CHECKING:
    from llmbx.api import Workload
    from llmbx.api.verbs import Workspace

    from .atlas.row import Row


@dataclasses.dataclass(frozen=True)
class Question:
    """What the command line asks for; None is not set."""

    names: tuple[str, ...]
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    release: str | None = None
    recipe: str | None = None
    stack: str | None = None
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)


def model_of(question: Question, workspace: Workspace) -> tuple[Model, Workload | None, str | None]:
    """The model of the question, with the catalog's workload and size if it is one of the catalog.

    Raises `UsageError` with a suggestion for an unknown name.
    """
    name = question.names[-1]
    model = next((item for item in known().values() if name.lower() in _names(item)), None)
    catalogued = _in_catalog(question, workspace, model)
    if catalogued is not None:
        workload, size = catalogued
        return of_shape(workload.sizes[size].model, f"{workload.name}-{size}"), workload, size
    if model is not None:
        if question.size is not None:
            raise UsageError(f"--size {question.size}: {model.name} is one model and has no sizes")
        return model, None, None
    names = [*known(), *(workload.name for workload in workspace.plugins.workloads)]
    raise UsageError(f"no workload or model named '{name}'{did_you_mean(name.lower(), names)}: "
                     "`llmbx atlas` and `llmbx list` show all")  # fmt: skip


def _names(model: Model) -> tuple[str, ...]:
    return model.name, *(alias.lower() for alias in model.aliases)


def _in_catalog(question: Question, workspace: Workspace, model: Model | None) -> tuple[Workload, str] | None:
    """The catalog's workload and size that the words name, or that is the model they name; None if it has none."""
    from llmbx.api.verbs import which_workload

    plugins = workspace.plugins
    workloads = {name for item in plugins.workloads for name in (item.name, *item.aliases)}
    name, plugin = which_workload(question.names, None, None)
    name, size = plugins.workload_and_size(name, question.size)
    if name not in workloads and model is not None:
        name, size = plugins.workload_and_size(model.name, question.size)
    if name not in workloads:
        if plugin is not None:
            plugins.workload(name, plugin)
        return None
    workload = plugins.workload(name, plugin)
    size = size or workload.default_size or next(iter(workload.sizes))
    if size not in workload.sizes:
        raise UsageError(f"{workload.name} has no size '{size}'{did_you_mean(size, workload.sizes)}")
    return workload, size


def as_a_run(question: Question, workspace: Workspace) -> Question:
    """The question with what `llmbx run` would use for these words on this machine, or by the cluster profile.

    Unchanged if a GPU type is asked for, or if neither machine nor profile has one.
    """
    from llmbx.api.verbs import Request, which_workload

    if question.gpu_type is not None:
        return question
    plugins = workspace.plugins
    name, plugin = which_workload(question.names, None, None)
    name, size = plugins.workload_and_size(name, question.size)
    request = Request(
        workload=name,
        plugin=plugin,
        size=size,
        dtype=question.dtype,
        gpus=question.gpus,
        recipe=question.recipe,
    )
    try:
        spec = workspace.resolve(request)
    except UsageError:
        return question
    if spec.gpu_type == "cpu":
        return question
    return dataclasses.replace(
        question,
        names=(spec.plugin, spec.workload),
        size=spec.size,
        dtype=spec.dtype,
        gpu_type=spec.gpu_type,
        gpus=spec.gpus,
    )


def on_own_type(question: Question, workspace: Workspace) -> Question:
    """The question with the GPU type of the cluster profile, else of this machine, if no other is asked for."""
    from llmbx.api.verbs import Request, which_workload

    if question.gpu_type is not None:
        return question
    if (profile := workspace.profile()) is not None:
        return dataclasses.replace(question, gpu_type=profile.cluster.gpu_type)
    name, plugin = which_workload(question.names, None, None)
    name, _ = workspace.plugins.workload_and_size(name, question.size)
    try:
        spec = workspace.resolve(Request(workload=name, plugin=plugin))
    except UsageError:
        return question
    return _on_amd(question) if spec.gpu_type == "cpu" else dataclasses.replace(question, gpu_type=spec.gpu_type)


def _on_amd(question: Question) -> Question:
    """The question with this machine's AMD GPUs, on which nothing runs, if their type is known."""
    for group in GpuType.seen():
        name = GpuType.identify(group.product) if group.amd else None
        if name in known_rates():
            return dataclasses.replace(question, gpu_type=name, gpus=question.gpus or group.count)
    return question


def check_stack(stack: str | None, rows: Sequence[Row]) -> None:
    """Raise `UsageError` for a stack that is neither a known one nor one of a figure."""
    stacks = dict.fromkeys((*ENGINES, BARE_STACK, OTHER_STACK, *(row.stack for row in rows)))
    if stack is not None and stack not in stacks:
        raise UsageError(f"--stack {stack}: expected {', '.join(stacks)}{did_you_mean(stack, stacks)}")


def on_known_gpus(question: Question, model: Model, rows: Sequence[Row], catalog: Mapping[str, set[int]]) -> Question:
    """Complete the request with the only GPU type and the only number of GPUs of the catalog, else of the atlas.

    Raises `UsageError` with the choices if there are several.
    """
    if question.gpu_type is not None and question.gpus is not None:
        return question
    published: dict[str, set[int]] = {}
    for row in rows:
        if row.model == model.name:
            published.setdefault(row.gpu_type, set()).add(row.gpus)
    scales = {name: counts for name, counts in (catalog or published).items() if name in known_rates()}
    types = [name for name, counts in scales.items() if question.gpus in counts] or list(scales)
    gpu_type = question.gpu_type or _only("--gpu-type", model.name, types)
    rates(gpu_type)
    counts = sorted(scales.get(gpu_type) or published.get(gpu_type) or set().union(*scales.values()))
    gpus = question.gpus or int(_only("--gpus", f"{model.name} on {gpu_type}", [str(count) for count in counts]))
    return dataclasses.replace(question, gpu_type=gpu_type, gpus=gpus)


def _only(option: str, what: str, choices: Sequence[str]) -> str:
    if len(choices) == 1:
        return choices[0]
    examples = f", for example {', '.join(choices)}" if choices else ""
    raise UsageError(f"{what}: add {option}{examples}")
