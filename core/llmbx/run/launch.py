"""Render the script that starts a run, and write the files of a launch."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model import Image, Launch, RunSpec, Wrapping
from ..model.run_folder import SCRIPT
from ..run_files import RunFolder

if TYPE_CHECKING:
    from ..plugins.manager import Plugins
    from .context import RunContext


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A run that is ready to start: the launch, the runtime's wrapping of each phase, and the script.

    `captured_by` are the profilers that wrap the launch in addition to those of the run.
    """

    launch: Launch
    wrappings: tuple[Wrapping, ...]
    script: str
    captured_by: tuple[str, ...] = ()

    @property
    def recorded(self) -> dict[str, Any]:
        """What the run's record keeps of it: one rank's command line by phase, and `captured_by`."""
        return {
            "commands": {phase.role: phase.argv for phase in self.launch.phases},
            "captured_by": self.captured_by,
        }

    def write(self, folder: Path) -> Path:
        """Write the launch's files and the script into the run folder; return the script's path."""
        write_files(folder, self)
        return folder / SCRIPT


def render(spec: RunSpec, context: RunContext, image: Image, folder: Path) -> Rendered:
    """Build the framework's launch, wrap it in profilers and runtime, and render the launcher's script. Pure."""
    launch = context.framework.build_command(spec, image)
    own = captured_by(spec, launch, context.plugins)
    for profiler in (*spec.profilers, *own):
        launch = context.plugins.ask(profiler, "wrap_command", spec=spec, launch=launch) or launch
    launch = with_companions(launch, context.plugins.companions(spec, launch))
    wrappings = tuple(context.runtime.wrap(spec, launch, phase, image, folder) for phase in launch.phases)
    return Rendered(launch, wrappings, context.launcher.render(spec, launch, wrappings, folder), own)


def with_companions(launch: Launch, companions: Sequence[Launch.Companion]) -> Launch:
    """Return the launch with programs beside its ranks, and with their files."""
    files = {f"{each.name}/{name}": content for each in companions for name, content in each.files.items()}
    beside: Launch = launch.replace(companions=(*launch.companions, *companions), files={**launch.files, **files})
    return beside


def captured_by(spec: RunSpec, launch: Launch, plugins: Plugins) -> tuple[str, ...]:
    """Return the profilers that phases of a launch need in addition to those of the run."""
    needed = [phase.capture.tool for phase in launch.phases if phase.capture]
    return tuple(tool for tool in dict.fromkeys(needed) if tool not in spec.profilers and tool in plugins.profilers())


def with_cache(spec: RunSpec, context: RunContext, offline: bool = False) -> RunSpec:
    """Add the model hub's cache to the specification's environment, so that containers see it."""
    cached: RunSpec = spec.replace(env={**cache_variables(context.install.path, os.environ, offline), **spec.env})
    return cached


def write_files(folder: Path, rendered: Rendered) -> None:
    """Write the launch's files and the script into the run folder.

    The files are not synced to disk: only this process starts the run from them, after this.
    """
    for name, content in rendered.launch.files.items():
        RunFolder(path=folder).write(name, content, durable=False)
    RunFolder(path=folder).write(SCRIPT, rendered.script, mode=0o777, durable=False)


def cache_variables(install: Path, environ: Mapping[str, str], offline: bool) -> dict[str, str]:
    """Return the variables with which the ranks find the hub's cache; if `offline`, also HF_HUB_OFFLINE=1.

    The cache is the user's (HF_HOME); if `offline` and HF_HOME is not set, the install's, which bundles put tokenizers
    into.
    """
    own = install / ".cache/huggingface"
    home = environ.get("HF_HOME") or (str(own) if offline else "")
    variables = {"HF_HOME": home} if home and Path(home).is_dir() else {}
    return {**variables, "HF_HUB_OFFLINE": "1"} if offline else variables
