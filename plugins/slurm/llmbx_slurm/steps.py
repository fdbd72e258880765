"""Steps besides the phases of a run: one task on each node, to set the GPUs up before the start and to clean up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from llmbx.api import (
    JOB_NAME,
    Launch,
    Launcher,
    Phase,
    RunSpec,
    Wrapping,
    settings_of,
)

from .settings import SlurmSettings

VBOOST_OUTPUT = "vboost.out"
MINUTES = 2
"""Time limit of each of these steps in minutes."""

BOOST = """\
set -- nvidia-smi boost-slider --vboost "$1"
[ "$(id -u)" -eq 0 ] || set -- sudo -n "$@"
text=$("$@" 2>&1) && echo "vboost is set" || echo "vboost is not set: $text\""""
"""Sets the boost slider of a node's GPUs. It always exits with 0, so that it cannot be taken for a failed rank."""


class Start(Protocol):
    """Renders the srun argv of a step, without the program."""

    def __call__(
        self, spec: RunSpec, launch: Launch, phase: Phase, wrapping: Wrapping, changes: Mapping[str, str] = ...
    ) -> list[str]:
        """`changes` are options that replace those of a phase and those of the user."""


def vboost(spec: RunSpec, launch: Launch, start: Start) -> tuple[list[str], list[str]]:
    """The shell functions that set the boost slider, and the line that calls them; empty if its level is not set or 0.

    NeMo's launch does this, too (PerfEnvPlugin). It needs sudo, which many clusters do not grant: a failure is only a
    warning.
    """
    level = settings_of(spec, SlurmSettings).vboost
    if not level:
        return [], []
    argv = ("/bin/sh", "-c", BOOST, "vboost", str(level))
    body = _on_each_node(spec, launch, start, argv, VBOOST_OUTPUT, "exec")
    functions = [Launcher.shell_source("vboost.sh", __package__), f"rank_vboost() {{\n  {body}\n}}"]
    return functions, [f"set_vboost {launch.nodes} {level}"]


def cleanup(spec: RunSpec, launch: Launch, wrappings: Sequence[Wrapping], start: Start) -> list[str]:
    """The shell function that removes what the runtime left on the nodes, after the end of the run; empty if nothing.

    When a job is cancelled, Slurm starts no further step, so that it cannot run.
    """
    commands = dict.fromkeys(wrapping.cleanup for wrapping in wrappings if wrapping.cleanup)
    if not commands:
        return []
    limit = ("timeout", str(60 * MINUTES))
    lines = [_on_each_node(spec, launch, start, argv, "/dev/null", *limit) for argv in commands]
    quiet = [f"  {line} < /dev/null > /dev/null 2>&1" for line in lines]
    return ["\n".join(["at_end() { # removes what the runtime left on the nodes", *quiet, "}"])]


def job_name(wrappings: Sequence[Wrapping], in_allocation: bool) -> list[str]:
    """The line that sets the job's name if a runtime uses it; empty otherwise.

    A requeued job gets another name, because its earlier start may have been interrupted while it used the name.
    """
    words = [word for wrapping in wrappings for word in (*wrapping.launcher_flags, *wrapping.cleanup)]
    if not any(JOB_NAME in word for word in words):
        return []
    return [f"job_name=llmbx-$job_id-{'$$' if in_allocation else '${SLURM_RESTART_COUNT:-0}'}"]


def _on_each_node(
    spec: RunSpec, launch: Launch, start: Start, argv: tuple[str, ...], output: str, *before: str
) -> str:  # fmt: skip
    """The srun command that runs `argv` once on each node, outside the container."""
    phase = Phase(role="each-node", argv=argv)
    each = Launch(nodes=launch.nodes, ranks_per_node=1, gpus_per_rank=0, phases=(phase,))
    words = start(spec, each, phase, Wrapping(), {"output": output, "time": str(MINUTES)})
    command: str = Launcher.command_line((*before, *words, *argv))
    return command
