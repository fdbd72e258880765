"""Check a profiler plugin: it wraps a launch, and reads a run folder that may be empty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import UsageError
from ..model import Figure, Finding, Launch, Phase, Prefix, ProfileSpec, RunSpec, TraceSpec, Wrapping
from ..model.evidence import Evidence
from ..plugins.discovery import PluginInfo
from ..plugins.guards import guard_test
from ..plugins.manager import Plugins
from .framework import FOLDER
from .sample import sample_spec
from .typed import all_typed, ill_typed

OTHER = Prefix(argv=("/usr/bin/env", "OTHER=1"))
"""The prefix of another profiler of the same run."""

LAUNCH = Launch(
    nodes=1, ranks_per_node=2, gpus_per_rank=1, files={"train.py": b"pass\n"},
    phases=(Phase(role="train", argv=("python3", "train.py"), env={"KEPT": "1"}, prefixes=(OTHER,)),),
)  # fmt: skip


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
    else:
        yield from _changed(launch)
    try:
        plugins.launcher("local").render(spec, launch, tuple(Wrapping() for _ in launch.phases), FOLDER)
    except UsageError as error:
        yield f"its launch cannot be rendered: {error}"


def _changed(launch: Launch) -> Iterator[str]:
    """Check that what the framework and other profilers put into the launch is still there, and wrapped once."""
    for before, phase in zip(LAUNCH.phases, launch.phases, strict=True):
        where = f"wrap_command, phase {phase.role!r}"
        if phase.argv != before.argv:
            yield f"{where}: argv is {' '.join(phase.argv)}; it must stay, and the profiler's words be a prefix"
        for prefix in dict.fromkeys(phase.prefixes):
            if phase.prefixes.count(prefix) > 1:
                yield f"{where}: the prefix {' '.join(prefix.argv)} is there {phase.prefixes.count(prefix)} times"
        if OTHER not in phase.prefixes:
            yield f"{where}: the prefix of another profiler is gone"
        if lost := {*before.env} - {*phase.env}:
            yield f"{where}: the variable {', '.join(lost)} is gone"
    if lost := {*LAUNCH.files} - {*launch.files}:
        yield f"wrap_command: the launch's file {', '.join(lost)} is gone"


def _empty_folder(info: PluginInfo, spec: RunSpec, plugins: Plugins) -> Iterator[str]:
    """Check that a missing profile is a finding and not an exception."""
    with tempfile.TemporaryDirectory(prefix="llmbx-check-") as folder:
        evidence = Evidence(steps=(), spec=spec, run_dir=Path(folder))
        for check in (check for answer in plugins.ask(info.name, "register_checks") for check in answer):
            if check.reads_files:
                with suppress(UsageError):  # one line that names what is missing is accepted too
                    guard_test(check, info.name)(evidence)
        with suppress(UsageError):
            for answer in plugins.ask(info.name, "figures", spec=spec, run_dir=Path(folder)) or []:
                yield from all_typed(answer, Figure, "figures")
