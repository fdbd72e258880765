"""Node checks before the framework starts: one short step on every node, in the job and the container of the run."""

from __future__ import annotations

import shlex

from llmbx.api import (
    Launch,
    Launcher,
    Phase,
    RunSpec,
    UsageError,
    Wrapping,
    settings_of,
)

from .settings import SlurmSettings
from .steps import Start

OUTPUT = "preflight.out"
MINUTES = 10
"""Time limit of the step in minutes. It includes unpacking the image on every node."""

PREFLIGHT = "preflight"
"""The role of the node check."""


def phase(spec: RunSpec, launch: Launch) -> Phase:
    """The phase of the node check: one task on each node, with the environment of the first phase."""
    argv = ("/bin/sh", "preflight.sh", *spec.repositories)
    return Phase(role=PREFLIGHT, argv=argv, env=launch.phases[0].env)


def with_preflight(spec: RunSpec, launch: Launch) -> Launch:
    """The launch of the node check alone; its programs are among the files of the run.

    Raises `UsageError` if the run's launch has a phase with the same name.
    """
    if any(existing.role == PREFLIGHT for existing in launch.phases):
        raise UsageError(
            f"phase '{PREFLIGHT}': this role is reserved for llmbx's node check; disable it with --no-preflight"
        )
    looks = [each for each in launch.companions if each.before]
    programs = "\n".join(f"look {shlex.join(each.argv)}" for each in looks)
    source = Launcher.shell_source("preflight.sh", __package__).replace("PROGRAMS\n", programs and f"{programs}\n")
    return Launch(
        nodes=launch.nodes, ranks_per_node=1, gpus_per_rank=launch.gpus_per_rank * launch.ranks_per_node,
        phases=(phase(spec, launch),), files={"preflight.sh": source.encode()},
    )  # fmt: skip


def script_blocks(spec: RunSpec, launch: Launch, wrapping: Wrapping, srun: Start) -> tuple[list[str], list[str]]:
    """The shell functions of the node check, and the lines that run it after the script's setup; empty if disabled.

    `wrapping` is that of the first phase, so the check also verifies that the run's container starts. `srun` renders
    the command that starts a phase.
    """
    if not settings_of(spec, SlurmSettings).preflight:
        return [], []
    check = with_preflight(spec, launch)
    (check_phase,) = check.phases
    start = srun(spec, check, check_phase, wrapping, {"output": OUTPUT, "time": str(MINUTES)})
    functions = [
        Launcher.shell_source("preflight_all.sh", __package__),
        Launcher.rank_function(spec, check_phase, wrapping, start),
    ]
    return functions, [Launcher.launch_files(check), f"check_nodes {launch.nodes}"]
