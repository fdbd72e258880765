"""The sampler as a companion of a run's ranks."""

from __future__ import annotations

from importlib import resources
from pathlib import PurePosixPath

from llmbx.api import Launch, RunSpec, settings_of

from .settings import TelemetrySettings

NAME = "telemetry"
"""The folder in the run folder."""

PROGRAM = "sampler.py"
ALONE = ("-I", "-S")
"""Options of Python: nothing but its standard library, whatever the environment of the ranks."""


def companions(spec: RunSpec, launch: Launch) -> list[Launch.Companion]:
    """Return the sampler, unless it is disabled."""
    if not settings_of(spec, TelemetrySettings).enabled:
        return []
    source = resources.files(__package__).joinpath("node", PROGRAM).read_bytes()
    argv = (python(launch), *ALONE, f"{NAME}/{PROGRAM}")
    return [Launch.Companion(name=NAME, argv=argv, files={PROGRAM: source})]


def python(launch: Launch) -> str:
    """Return the Python that runs the ranks, which every node has; else the one on PATH."""
    programs = [phase.argv[0] for phase in launch.phases]
    names = [word for word in programs if PurePosixPath(word).name.startswith("python")]
    return names[0] if names else "python3"
