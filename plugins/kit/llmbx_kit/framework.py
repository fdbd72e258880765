"""Check a framework: its workloads, and what its hooks return for every row of its catalog."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path, PurePath

from llmbx.api import (
    Image,
    InfraError,
    Launch,
    LlmbxError,
    Phase,
    Recipe,
    Row,
    RunSpec,
    UsageError,
    Workload,
    Wrapping,
)
from llmbx.api.contract import Framework, check_workload
from llmbx.api.verbs import Plugins, common_findings, scales_of
from llmbx.entry.secrets import is_secret

from .preview import INSTALL, resolve_spec
from .subject import Subject

REQUIRED = ("prepare_image", "build_command", "parse_log", "compute_flops")
"""Hooks that a plugin with workloads must have."""

STARTERS = ("torchrun", "mpirun", "mpiexec", "accelerate", "deepspeed")
"""Programs that start ranks, which is the task of the launcher."""

ANY = "any"
"""The scale, or the GPU type, of a row for every one."""

IMAGE = Image(kind="test", reference="test", python="python3")
FOLDER = Path(INSTALL) / "workloads/run"


def framework_problems(subject: Subject) -> Iterator[str]:
    """Yield the problems of the plugin's workloads and of its hooks for them."""
    missing = [hook for hook in REQUIRED if hook not in subject.info.hooks]
    if missing:
        yield from (f"it has workloads but no hook {hook}" for hook in missing)
        return
    for answer in subject.plugins.ask(subject.name, "register_workloads"):
        for workload in answer:
            yield from _workload(workload.replace(plugin=subject.name), subject.plugins)


def _workload(workload: Workload, plugins: Plugins) -> Iterator[str]:
    try:
        check_workload(workload, workload.name)
    except UsageError as error:
        yield str(error)
        return
    for recipe in workload.recipes:
        for row in recipe.rows:
            for dtype, gpu_type, gpus in itertools.product(row.dtypes, row.gpu_types, _ends(row)):
                gpu_type = "cpu" if gpu_type == ANY else gpu_type
                place = f"{workload.name} {row.size} {dtype} on {gpus} {gpu_type}"
                try:
                    spec = row_spec(workload, recipe, row, dtype, gpu_type, gpus)
                    problems = [*_run(spec, plugins.framework(spec.plugin), plugins)]
                except LlmbxError as error:
                    problems = [str(error)]
                yield from (f"{place} (recipe {recipe.name}): {text}" for text in problems)


def row_spec(
    workload: Workload, recipe: Recipe, row: Row, dtype: str, gpu_type: str, gpus: int = 0
) -> RunSpec:
    """Return the run of a row of the catalog; by default at its smallest scale."""
    return resolve_spec(
        workload.name,
        plugin=workload.plugin,
        size=row.size,
        dtype=dtype,
        gpu_type=gpu_type,
        gpus=gpus or _ends(row)[0],
        recipe=recipe.name,
    )


def _ends(row: Row) -> list[int]:
    """The smallest and largest scale of a row; of any scale the smallest that its degrees allow."""
    scales = scales_of(row.gpus)
    if not scales or ANY in row.gpus:
        return [row.tp * row.pp * row.cp * max(1, row.ep or 1)]
    return sorted({scales[0], scales[-1]})


def _run(spec: RunSpec, framework: Framework, plugins: Plugins) -> Iterator[str]:
    for finding in (*common_findings(spec), *framework.check_spec(spec)):
        if not finding.warning:
            yield f"its own row breaks a rule: {finding.problem}; {finding.fix}"
    framework.prepare_image(spec)
    yield from _flops(spec, framework)
    yield from _configuration(spec, framework)
    launch = framework.build_command(spec, IMAGE)
    yield from _launch(spec, launch, plugins)
    if framework.build_command(spec, IMAGE) != launch:
        yield "build_command is not pure: two calls returned different launches"


def _flops(spec: RunSpec, framework: Framework) -> Iterator[str]:
    flops = framework.compute_flops(spec)
    if flops is None:
        yield "compute_flops returned nothing"
    elif not flops.formula:
        yield "compute_flops: formula is empty, expected its name"


def _configuration(spec: RunSpec, framework: Framework) -> Iterator[str]:
    expected = framework.expect_configuration(spec)
    for entry in expected.permitted if expected else ():
        if not entry.reason.strip():
            keys = ", ".join(entry.keys)
            yield f"expect_configuration: the permitted difference in {keys} has no reason"
    try:
        framework.configuration_program(spec)
    except (UsageError, InfraError):
        return  # the plugin says why it cannot build this configuration


def _launch(spec: RunSpec, launch: Launch, plugins: Plugins) -> Iterator[str]:
    if launch.nodes != spec.nodes:
        yield f"build_command returned a launch of {launch.nodes} nodes, expected {spec.nodes}"
    commands = [tool.flag_syntax for tool in plugins.launchers().values() if tool.flag_syntax]
    for phase in launch.phases:
        what = f"phase {phase.role!r}"
        yield from (f"{what} {text}" for text in _phase(phase, launch, (*STARTERS, *commands)))
    try:
        wrappings = tuple(Wrapping() for _ in launch.phases)
        plugins.launcher(spec.launcher).render(spec, launch, wrappings, FOLDER)
    except UsageError as error:
        yield f"its launch cannot be rendered: {error}"


def _phase(phase: Phase, launch: Launch, starters: tuple[str, ...]) -> Iterator[str]:
    command, program = (*phase.argv, "", "")[:2]
    if (name := PurePath(command).name) in starters:
        yield f"starts with {name}: argv is for one rank, the launcher starts the ranks"
    inside = program.endswith(".py") and not program.startswith("/")
    if inside and program not in launch.files:
        yield f"starts {program}, which is not one of the launch's files"
    for variable in filter(is_secret, phase.env):
        yield f"has the secret {variable} in env: list its name in forward, without its value"
