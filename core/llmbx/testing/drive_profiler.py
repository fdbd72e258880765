"""Drive a profiler: run a program under it that prints, is run once, and fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ..launchers.base import Launcher
from ..model import Launch, RunSpec
from .driven import CODE, Driven, Place, parts
from .outcome import Found


def drive_profiler(
    wrap: Callable[[RunSpec, Launch], Launch], launcher: Launcher, spec: RunSpec, place: Place
) -> list[Found]:
    """Return what the drive found. A profiler whose program is not on this machine is not driven."""

    def scenario() -> Iterator[str]:
        driven = place.start(launcher, "profiled", "end", str(CODE), spec=spec, profile=wrap)
        end = driven.ended("the wrapped job has not ended")
        if end.exit_code != CODE:
            yield f"the wrapped job ended with exit code {end.exit_code}, expected that of its program, {CODE}"
        yield from driven.problems()
        yield from _runs(driven)

    if absent := _absent(wrap, launcher, spec, place):
        return [("not checked", [absent])]
    try:
        problems = [text for _, text in parts({"run": scenario})]
    finally:
        place.close()
    passed = "a wrapped program runs once, and fails with its exit code"
    return [("failed", problems)] if problems else [("ok", [passed])]


def _runs(driven: Driven) -> Iterator[str]:
    for rank in range(driven.launch.world_size):
        path = driven.folder / f"ended-{rank}"
        times = len(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else 0
        if times != 1:
            yield f"rank {rank} ran the program {times} times, expected once"


def _absent(wrap: Callable[[RunSpec, Launch], Launch], launcher: Launcher, spec: RunSpec, place: Place) -> str:
    """Return which program of a prefix is not on this machine; empty if all are."""
    launch = Driven(place, launcher, Path(place.root / "absent"), (), spec, profile=wrap).launch
    for prefix in (prefix for phase in launch.phases for prefix in phase.prefixes):
        if prefix.argv and not shutil.which(prefix.argv[0]) and prefix.argv[0].removeprefix("./") not in launch.files:
            return f"running a program under it: {prefix.argv[0]} is not on PATH"
    return ""
