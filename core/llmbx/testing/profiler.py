"""Check a profiler plugin: it wraps a launch, and reads a run folder that may be empty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import UsageError
from ..model import Figure, Finding, Launch, Phase, ProfileSpec, RunSpec, TraceSpec, Wrapping
from ..plugins.discovery import PluginInfo
from ..plugins.manager import Plugins
from .framework import FOLDER
from .sample import sample_spec
from .typed import all_typed, ill_typed

LAUNCH = Launch(nodes=1, ranks_per_node=2, gpus_per_rank=1, phases=(Phase(role="train", argv=("python3", "train.py")),))


def profiler_problems(info: PluginInfo, plugins: Plugins) -> Iterator[str]:
    """Yield the problems of the profiler in a run of two ranks with five profiled steps."""
    profile = ProfileSpec(start=10, stop=15, ranks="all", tool=info.name)
    spec = sample_spec(profilers=(info.name,), profile=profile, trace=TraceSpec(tool=info.name))
    for answer in plugins.ask(info.name, "check_spec", spec=spec) or []:
        yield from all_typed(answer, Finding, "check_spec")
    plugins.obstacle(info.name, spec)  # raises if it returns something else
    launch = plugins.ask(info.name, "wrap_command", spec=spec, launch=LAUNCH)
    if launch is not None:
        yield from _wrapped(spec, launch, plugins)
        if plugins.ask(info.name, "wrap_command", spec=spec, launch=LAUNCH) != launch:
            yield "wrap_command is not pure: two calls returned different launches"
    yield from _empty_folder(info, spec, plugins)


def _wrapped(spec: RunSpec, launch: Launch, plugins: Plugins) -> Iterator[str]:
    broken = [*ill_typed(launch, Launch, "wrap_command")]
    yield from broken
    if broken:
        return
    if [phase.role for phase in launch.phases] != [phase.role for phase in LAUNCH.phases]:
        yield "wrap_command changed the phases of the launch; a profiler must wrap them with prefixes"
    try:
        plugins.launcher("local").render(spec, launch, tuple(Wrapping() for _ in launch.phases), FOLDER)
    except UsageError as error:
        yield f"its launch cannot be rendered: {error}"


def _empty_folder(info: PluginInfo, spec: RunSpec, plugins: Plugins) -> Iterator[str]:
    """Check that a missing profile is a finding and not an exception."""
    with tempfile.TemporaryDirectory(prefix="llmbx-check-") as folder:
        for hook, type_ in (("analyze", Finding), ("figures", Figure)):
            try:
                answers = plugins.ask(info.name, hook, spec=spec, run_dir=Path(folder)) or []
            except UsageError:  # one line that names what is missing is accepted too
                continue
            for answer in answers:
                yield from all_typed(answer, type_, hook)
