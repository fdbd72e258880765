"""Drive a profiler: run a program under it that prints, is run once, and fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from llmbx.api import Launcher, RunSpec

from .driven import CODE, Driven, Place, Profile, driven_launch, read
from .outcome import Found, judged


def drive_profiler(wrap: Profile, launcher: Launcher, spec: RunSpec, place: Place) -> list[Found]:
    """Return what the drive found; a profiler without its program on this machine is not driven."""

    def scenario() -> Iterator[str]:
        driven = place.start(launcher, "profiled", "end", str(CODE), spec=spec, profile=wrap)
        end = driven.ended("the wrapped job has not ended")
        if end.exit_code != CODE:
            expected = f"expected that of its program, {CODE}"
            yield f"the wrapped job ended with exit code {end.exit_code}, {expected}"
        yield from driven.problems()
        yield from _runs(driven)

    if absent := _absent(wrap, spec):
        return [("not checked", [f"running a program under it: {absent} is not on PATH"])]
    passed = "a wrapped program runs once, and fails with its exit code"
    return [judged([*place.drive(scenario)], passed)]


def _runs(driven: Driven) -> Iterator[str]:
    for rank in range(driven.launch.world_size):
        times = len(read(driven.folder / f"ended-{rank}").splitlines())
        if times != 1:
            yield f"rank {rank} ran the program {times} times, expected once"


def _absent(wrap: Profile, spec: RunSpec) -> str:
    """Return which program of a prefix is not on this machine; empty if all are."""
    launch = wrap(spec, driven_launch((), 2))
    for program in (prefix.argv[0] for phase in launch.phases for prefix in phase.prefixes):
        if not shutil.which(program) and program.removeprefix("./") not in launch.files:
            return program
    return ""
