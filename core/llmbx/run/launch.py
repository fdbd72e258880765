"""From a specification to the script that starts it: pure rendering, and writing the files of a launch."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from ..files import write_atomic
from ..launchers.script import SCRIPT
from ..model import Image, Launch, RunSpec, Wrapping
from ..plugins.manager import Plugins
from .context import RunContext
from .hub import cache_variables


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A run that is ready to start: the launch, how each phase is wrapped, and the script that starts it."""

    launch: Launch
    wrappings: tuple[Wrapping, ...]
    script: str


def render(spec: RunSpec, context: RunContext, image: Image, folder: Path) -> Rendered:
    """The framework's launch with its profilers, wrapped by the runtime, as the launcher's script. Pure."""
    launch = context.framework.build_command(spec, image)
    for profiler in wrappers(spec, launch, context.plugins):
        launch = context.plugins.ask(profiler, "wrap_command", spec=spec, launch=launch) or launch
    wrappings = tuple(context.runtime.wrap(spec, launch, phase, image, folder) for phase in launch.phases)
    return Rendered(launch, wrappings, context.launcher.render(spec, launch, wrappings, folder))


def wrappers(spec: RunSpec, launch: Launch, plugins: Plugins) -> tuple[str, ...]:
    """The profilers that wrap a launch, in order: those of the run, then those that its phases need."""
    needed = [phase.capture.tool for phase in launch.phases if phase.capture]
    own = [tool for tool in dict.fromkeys(needed) if tool not in spec.profilers and tool in plugins.profilers()]
    return (*spec.profilers, *own)


def plan(spec: RunSpec, context: RunContext) -> tuple[Image, Path, Rendered]:
    """What a run would start, without fetching or writing anything (`--dry-run`)."""
    image = context.runtime.plan(context.framework.prepare_image(spec), context.install.path)
    spec = with_cache(spec, context)
    name = spec.experiment
    folder = context.install.experiments(spec.folder) / name / f"{name}_TIMESTAMP" / name
    return image, folder, render(spec, context, image, folder)


def with_cache(spec: RunSpec, context: RunContext, offline: bool = False) -> RunSpec:
    """The specification with the model hub's cache in its environment, so that containers see it."""
    found: RunSpec = spec.replace(env={**cache_variables(context.install.path, os.environ, offline), **spec.env})
    return found


def write_files(folder: Path, rendered: Rendered) -> None:
    """Write the launch's files and the script into the run folder.

    They need not survive a power failure: a run is started only after this, by this process.
    """
    for name, content in rendered.launch.files.items():
        write_atomic(folder / name, content, durable=False)
    write_atomic(folder / SCRIPT, rendered.script, mode=0o755, durable=False)
