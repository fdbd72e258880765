"""Check a profiler: it wraps a launch, and reads a run folder that may be empty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from llmbx.api import Evidence, Launch, Phase, Prefix, ProfileSpec, RunSpec, UsageError, Wrapping
from llmbx.api.contract import TraceSpec

from .framework import FOLDER
from .outcome import described
from .sample import sample_spec
from .subject import Subject

OTHER = Prefix(argv=("/usr/bin/env", "OTHER=1"))
"""The prefix of another profiler of the same run."""

BEFORE = Phase(role="train", argv=("python3", "train.py"), env={"KEPT": "1"}, prefixes=(OTHER,))

LAUNCH = Launch(
    nodes=1,
    ranks_per_node=2,
    gpus_per_rank=1,
    files={"train.py": b"pass\n"},
    phases=(BEFORE,),
)


def profiled_spec(name: str) -> RunSpec:
    """Return a run of two ranks with five profiled steps, and a trace."""
    profile = ProfileSpec(start=10, stop=15, ranks="all", tool=name)
    return sample_spec(profilers=(name,), profile=profile, trace=TraceSpec(tool=name))


def profiler_problems(subject: Subject) -> Iterator[str]:
    """Yield the problems of the profiler; what has the wrong type raises `LlmbxError`."""
    name, plugins = subject.name, subject.plugins
    spec = profiled_spec(name)
    plugins.ask(name, "check_spec", spec=spec)
    plugins.obstacle(name, spec)
    launch = plugins.ask(name, "wrap_command", spec=spec, launch=LAUNCH)
    if launch is not None:
        yield from _changed(launch)
        try:
            wrappings = tuple(Wrapping() for _ in launch.phases)
            plugins.launcher(spec.launcher).render(spec, launch, wrappings, FOLDER)
        except UsageError as error:
            yield f"its launch cannot be rendered: {error}"
        if plugins.ask(name, "wrap_command", spec=spec, launch=LAUNCH) != launch:
            yield "wrap_command is not pure: two calls returned different launches"
    yield from _empty_folder(subject, spec)


def _changed(launch: Launch) -> Iterator[str]:
    """Check that what the framework and other profilers put into the launch is still there."""
    if missing := {*LAUNCH.files} - {*launch.files}:
        yield f"wrap_command: the launch's file {', '.join(missing)} is gone"
    if [phase.role for phase in launch.phases] != [BEFORE.role]:
        yield (
            "wrap_command changed the phases of the launch; a profiler must wrap them with prefixes"
        )
        return
    (phase,) = launch.phases
    where = f"wrap_command, phase {phase.role!r}"
    if phase.argv != BEFORE.argv:
        words = " ".join(phase.argv)
        yield f"{where}: argv is {words}; it must stay, and the profiler's words be a prefix"
    for prefix in dict.fromkeys(phase.prefixes):
        if (times := phase.prefixes.count(prefix)) > 1:
            yield f"{where}: the prefix {' '.join(prefix.argv)} is there {times} times"
    if OTHER not in phase.prefixes:
        yield f"{where}: the prefix of another profiler is gone"
    if missing := {*BEFORE.env} - {*phase.env}:
        yield f"{where}: the variable {', '.join(missing)} is gone"


def _empty_folder(subject: Subject, spec: RunSpec) -> Iterator[str]:
    """Check that a missing profile is a finding, or one line that names what is missing."""
    name, plugins = subject.name, subject.plugins
    with tempfile.TemporaryDirectory(prefix="llmbx-check-") as folder:
        evidence = Evidence(steps=(), spec=spec, run_dir=Path(folder))
        for answer in plugins.ask(name, "register_checks"):
            for check in answer:
                try:
                    if check.reads_files:
                        check.test(evidence)
                except UsageError:
                    continue
                except Exception as error:
                    yield f"check '{check.id}' failed: {described(error)}"
        with suppress(UsageError):
            plugins.ask(name, "figures", spec=spec, run_dir=Path(folder))
