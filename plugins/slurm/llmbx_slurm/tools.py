"""Calling Slurm's own commands, and what their errors mean to a user."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llmbx.errors import InfraError
from llmbx.launchers.base import Unreachable

KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_DEBUG_FLAGS")
"""Variables of Slurm's commands themselves; the other `SLURM_*` and `SBATCH_*` belong to a job, or to its options."""

_NO_CONTROLLER = "the controller cannot be reached: see `scontrol ping`"

_HINTS = {
    ("gpus not found", "without gpu resources"): "this partition wants GPUs to be asked for: set "
    "SBATCH_GPUS_PER_NODE=<GPUs of a node> (or SBATCH_GRES=gpu:<n>), or gres in the cluster's profile",
    (
        "generic resource (gres)",
        "invalid gres",
    ): "the cluster has no such GRES: see `sinfo -o '%P %G'` and correct gres or gpus-per-node",
    ("node configuration is not available",): "no node has all that is asked for: see `sinfo -o '%P %D %c %m %G %f'` "
    "and correct gres, gpus-per-node, mem or constraint",
    ("invalid partition",): "see `sinfo -s` for the partitions, and choose one with --slurm-arg partition=NAME",
    ("account",): "see `sacctmgr show assoc user=$USER` for yours, and choose one with --slurm-arg account=NAME",
    ("qos",): "see `sacctmgr show qos`, and choose one with --slurm-arg qos=NAME",
    ("time limit", "timelimit"): "ask for less with --slurm-arg time=HH:MM:SS (`sinfo -o '%P %l'` shows the limits)",
    ("feature",): "the nodes have no such feature: see `sinfo -o '%N %f'` and correct constraint",
    ("reservation",): "see `scontrol show reservation` and correct reservation",
    ("node name",): "see `sinfo -N` and correct nodelist or exclude",
    ("node count", "more nodes"): "the partition is too small for this run: see `sinfo -s`",
    ("unrecognized option",): "this cluster's Slurm does not know the option: leave it out",
    ("unable to contact", "socket timed out", "connection refused", "establish a configuration"): _NO_CONTROLLER,
}
"""What would be right, by words of the errors that users meet (in this order)."""


def environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables a command of Slurm is called with: a surrounding job must not leak into the new one.

    Times are asked for as epoch seconds.
    """
    source = os.environ if environ is None else environ
    job = ("SLURM_", "SBATCH_", "SRUN_", "LLMBX_RANK", "LLMBX_LOCAL_", "LLMBX_WORLD_", "LLMBX_NODE_", "LLMBX_MASTER_")
    kept = {name: value for name, value in source.items() if name in KEPT or not name.startswith(job)}
    return {**kept, "SLURM_TIME_FORMAT": "%s", "LC_ALL": kept.get("LC_ALL", "C.UTF-8")}


def call(*command: str, cwd: str | None = None, environ: Mapping[str, str] | None = None, timeout_s: float = 60) -> str:
    """What the command prints. Raises `Unreachable` when the controller does not answer, else `InfraError`."""
    import subprocess

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", cwd=cwd, timeout=timeout_s,
            stdin=subprocess.DEVNULL, env=environment() if environ is None else dict(environ),
        )  # fmt: skip
    except FileNotFoundError as error:
        raise InfraError(f"{command[0]} is not on PATH: this machine is not part of a Slurm cluster") from error
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"{command[0]} has not answered for {timeout_s:g} s: see `scontrol ping`") from error
    if done.returncode != 0:
        raise _error(command[0], done.stderr, done.returncode)
    return done.stdout


def _error(command: str, text: str, code: int) -> InfraError:
    line = message(text) or f"exit code {code}"
    hint = hint_for(text)
    kind = Unreachable if hint == _NO_CONTROLLER else InfraError
    return kind(f"{command}: {line}" + (f"; {hint}" if hint else ""))


def message(text: str) -> str:
    """The telling part of what a command of Slurm wrote to its error stream: one line without its own prefixes."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Try ")]
    for prefix in ("sbatch: ", "error: ", "Batch job submission failed: "):
        lines = [line.removeprefix(prefix) for line in lines]
    return "; ".join(dict.fromkeys(lines))


def hint_for(text: str) -> str | None:
    """What would be right, for the errors that users meet."""
    lower = text.lower()
    return next((hint for words, hint in _HINTS.items() if any(word in lower for word in words)), None)
