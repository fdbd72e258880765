"""Check a framework plugin: its workloads, and the results of its hooks for every row of its catalog."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path, PurePath

from ..catalog.hardware import builtin
from ..catalog.scales import ANY, admits, scales
from ..catalog.validation import check_workload
from ..errors import InfraError, LlmbxError, UsageError
from ..model import Finding, Image, ImageRequest, Launch, Phase, Recipe, Row, RunSpec, Workload, Wrapping
from ..plugins.discovery import PluginInfo
from ..plugins.manager import Framework, Plugins
from ..resolve.place import choose_launcher
from ..resolve.rules import common_findings
from ..secrets import is_secret
from .preview import INSTALL, resolve_spec
from .typed import all_typed, ill_typed

REQUIRED = ("prepare_image", "build_command", "parse_log", "compute_flops")
"""Hooks that a plugin with workloads must have."""

STARTERS = ("torchrun", "mpirun", "mpiexec", "accelerate", "deepspeed")
"""Programs that start ranks, which is the task of the launcher."""

IMAGE = Image(kind="test", reference="test", python="python3")
FOLDER = Path(INSTALL) / "workloads/run"


def framework_problems(info: PluginInfo, plugins: Plugins) -> Iterator[str]:
    """Yield the problems of the plugin's workloads and of its hooks for them."""
    for hook in REQUIRED:
        if hook not in info.hooks:
            yield f"it has workloads but no hook {hook}"
    if any(hook not in info.hooks for hook in REQUIRED):
        return
    answers = plugins.ask(info.name, "register_workloads")
    broken = [text for found in answers for text in all_typed(found, Workload, "register_workloads")]
    yield from broken
    if broken:
        return
    framework = plugins.framework(info.name)
    for workload in (workload for found in answers for workload in found):
        yield from _workload(workload.replace(plugin=info.name), framework, plugins)


def _workload(workload: Workload, framework: Framework, plugins: Plugins) -> Iterator[str]:
    try:
        check_workload(workload, workload.name)
    except UsageError as error:
        yield str(error)
        return
    for recipe in workload.recipes:
        for row in recipe.rows:
            for dtype, gpu_type, gpus in itertools.product(row.dtypes, row.gpu_types, _ends(row)):
                known = "cpu" if gpu_type == ANY else gpu_type
                place = f"{workload.name} {row.size} {dtype} on {gpus} {known} (recipe {recipe.name})"
                try:
                    spec = _resolved(workload, recipe, row, dtype, known, gpus)
                    yield from (f"{place}: {text}" for text in _run(spec, framework, plugins))
                except LlmbxError as error:
                    yield f"{place}: {error}"


def _ends(row: Row) -> list[int]:
    """Return the smallest and largest scale of a row; if it accepts any, the smallest that its degrees allow."""
    known = scales(row.gpus)
    if not known or ANY in row.gpus:
        return [row.tp * row.pp * row.cp * max(1, row.ep or 1)]
    return sorted({known[0], known[-1]})


def smallest_scale(row: Row) -> int:
    """Return the smallest number of GPUs of a row."""
    return _ends(row)[0]


def _resolved(workload: Workload, recipe: Recipe, row: Row, dtype: str, gpu_type: str, gpus: int) -> RunSpec:
    if gpu_type != "cpu" and gpu_type not in builtin():
        raise UsageError(f"no GPU type named '{gpu_type}' (known: {', '.join(builtin())})")
    if not admits(row.gpus, gpus):
        raise UsageError(f"{gpus} GPUs is not one of its scales")
    return resolve_spec(
        workload.name, plugin=workload.plugin, size=row.size, dtype=dtype, gpu_type=gpu_type, gpus=gpus,
        recipe=recipe.name,
    )  # fmt: skip


def _run(spec: RunSpec, framework: Framework, plugins: Plugins) -> Iterator[str]:
    own = framework.check_spec(spec)
    yield from all_typed(own, Finding, "check_spec")
    for finding in (*common_findings(spec), *own):
        if not finding.warning:
            yield f"its own row breaks a rule: {finding.problem}; {finding.fix}"
    request = framework.prepare_image(spec)
    yield from ill_typed(request, ImageRequest, "prepare_image")
    yield from _flops(spec, framework)
    yield from _configuration(spec, framework)
    launch = framework.build_command(spec, IMAGE)
    broken = [*ill_typed(launch, Launch, "build_command")] or [
        text for phase in launch.phases for text in ill_typed(phase, Phase, f"build_command, phase {phase.role!r},")
    ]
    yield from broken
    if not broken:
        yield from _launch(spec, launch, plugins)
        if framework.build_command(spec, IMAGE) != launch:
            yield "build_command is not pure: two calls returned different launches"


def _configuration(spec: RunSpec, framework: Framework) -> Iterator[str]:
    expected = framework.expect_configuration(spec)
    for entry in expected.permitted if expected else ():
        if not entry.reason.strip():
            yield f"expect_configuration: the permitted difference in {', '.join(entry.keys)} has no reason"
    try:
        framework.configuration_program(spec)
    except (UsageError, InfraError):
        return  # the plugin says why it cannot build this configuration


def _flops(spec: RunSpec, framework: Framework) -> Iterator[str]:
    flops = framework.compute_flops(spec)
    if flops is None:
        yield "compute_flops returned nothing"
        return
    if not flops.formula:
        yield "compute_flops: formula is empty, expected its name"


def _launch_commands(plugins: Plugins) -> list[str]:
    """Return the commands with which launchers start ranks."""
    return [tool.flag_syntax for tool in plugins.launchers().values() if tool.flag_syntax]


def _launch(spec: RunSpec, launch: Launch, plugins: Plugins) -> Iterator[str]:
    if launch.nodes != spec.nodes:
        yield f"build_command returned a launch of {launch.nodes} nodes, expected {spec.nodes}"
    for phase in launch.phases:
        starter = PurePath(phase.argv[0] if phase.argv else "").name
        if starter in (*STARTERS, *_launch_commands(plugins)):
            yield f"phase {phase.role!r} starts with {starter}: argv is for one rank, the launcher starts the ranks"
        program = phase.argv[1] if len(phase.argv) > 1 else ""
        if program.endswith(".py") and not program.startswith("/") and program not in launch.files:
            yield f"phase {phase.role!r} starts {program}, which is not one of the launch's files"
        for name in filter(is_secret, phase.env):
            yield f"phase {phase.role!r} has the secret {name} in env: list its name in forward, without its value"
    wrappings = tuple(Wrapping() for _ in launch.phases)
    launcher = plugins.launcher(choose_launcher(plugins, launch.nodes, False, {})[0])
    try:
        launcher.render(spec, launch, wrappings, FOLDER)
    except UsageError as error:
        yield f"its launch cannot be rendered: {error}"
