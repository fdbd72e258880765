"""Call Slurm commands, and add hints to their errors."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Mapping

from llmbx.api import InfraError, Unreachable

from .unanswered import UNANSWERED

SLURM_CONFIGURATION = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_DEBUG_FLAGS")
"""Variables that configure Slurm commands; other `SLURM_*` and `SBATCH_*` variables describe a job or its options."""

_NO_CONTROLLER = "the controller cannot be reached: see `scontrol ping`"

_LIMIT = (
    "a limit of your QOS or account: see `sacctmgr show qos` and `sacctmgr show assoc user=$USER`, and ask for less, "
    "wait for your other jobs, or choose another QOS with --slurm-qos"
)

_HINTS = {
    # The first, as a refusal's word may be part of a host's or a plugin's name in a message about the connection.
    (*(text.lower() for text in UNANSWERED), "establish a configuration"): _NO_CONTROLLER,
    # Before "account" and "qos": this message has both words, and neither of them is wrong.
    ("violates accounting/qos policy", "qosmax", "qosgrp", "qosmin", "assocmax", "assocgrp"): _LIMIT,
    ("gpus not found", "without gpu resources"): "this partition requires a GPU request: set "
    "SBATCH_GPUS_PER_NODE=<GPUs of a node> (or SBATCH_GRES=gpu:<n>), or gres in the cluster's profile",
    (
        "generic resource (gres)",
        "invalid gres",
    ): "the cluster has no such GRES: see `sinfo -o '%P %G'` and correct gres or gpus-per-node",
    ("node configuration is not available",): "no node has all requested resources: see `sinfo -o '%P %D %c %m %G %f'` "
    "and correct gres, gpus-per-node, mem or constraint",
    ("invalid partition",): "see `sinfo -s` for the partitions, and choose one with --slurm-arg partition=NAME",
    ("account",): "see `sacctmgr show assoc user=$USER` for yours, and choose one with --slurm-arg account=NAME",
    ("qos",): "see `sacctmgr show qos`, and choose one with --slurm-arg qos=NAME",
    ("time limit", "timelimit"): "set a shorter one with --slurm-arg time=HH:MM:SS (limits: `sinfo -o '%P %l'`)",
    ("feature",): "no node has this feature: see `sinfo -o '%N %f'` and correct constraint",
    ("reservation",): "see `scontrol show reservation` and correct reservation",
    ("node name",): "see `sinfo -N` and correct nodelist or exclude",
    ("node count", "more nodes"): "the partition is too small for this run: see `sinfo -s`",
    (
        "'--segment",
    ): "this cluster's Slurm has no segments (24.05 and newer with the plugin topology/block have): omit the "
    "option with --slurm-segment none",
    (
        "topology configuration is not available",
        "segment",
    ): "no blocks of nodes for this number of nodes per segment: see "
    "`scontrol show topology`, and set another with --slurm-segment N, or none",
    ("unrecognized option",): "this cluster's Slurm does not support the option: remove it",
}
"""Hints by words in error messages; the first match counts."""


def environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for Slurm commands, without those of a surrounding job. Times are printed as epoch seconds."""
    source = os.environ if environ is None else environ
    job = ("SLURM_", "SBATCH_", "SRUN_", "LLMBX_RANK", "LLMBX_LOCAL_", "LLMBX_WORLD_", "LLMBX_NODE_", "LLMBX_MASTER_")
    variables = {
        name: value for name, value in source.items() if name in SLURM_CONFIGURATION or not name.startswith(job)
    }
    return {**variables, "SLURM_TIME_FORMAT": "%s", "LC_ALL": variables.get("LC_ALL", "C.UTF-8")}


@functools.cache
def owners_umask() -> str:
    """The umask of this process with all that denies the group to write: sbatch reads it from SLURM_UMASK.

    It is read once: reading it changes it for a moment, for all threads.
    """
    before = os.umask(0o077)
    os.umask(before)
    return f"{before | stat.S_IWGRP | stat.S_IWOTH:04o}"


def call(*command: str, cwd: str | None = None, environ: Mapping[str, str] | None = None, timeout_s: float = 60) -> str:
    """Run a command and return its output.

    Raises `Unreachable` if the controller does not respond within `timeout_s` seconds, or this machine cannot start the
    command now, `InfraError` for other failures.
    """
    import subprocess

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", cwd=cwd, timeout=timeout_s,
            stdin=subprocess.DEVNULL, env=environment() if environ is None else dict(environ),
        )  # fmt: skip
    except FileNotFoundError as error:
        raise InfraError(f"{command[0]} is not on PATH: this machine is not part of a Slurm cluster") from error
    except OSError as error:
        raise Unreachable(f"{command[0]} could not be started: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"{command[0]} timed out after {timeout_s:g} s: see `scontrol ping`") from error
    if done.returncode != 0:
        raise _error(command[0], done.stderr, done.returncode)
    return done.stdout


def _error(command: str, text: str, code: int) -> InfraError:
    line = message(text) or f"exit code {code}"
    hint = hint_for(text)
    kind = Unreachable if hint == _NO_CONTROLLER else InfraError
    return kind(f"{command}: {line}" + (f"; {hint}" if hint else ""))


_COMMANDS = ("sbatch: ", "squeue: ", "sacct: ", "scontrol: ", "scancel: ")


def message(text: str) -> str:
    """The error message of a Slurm command in one line, without prefixes, from its standard error."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Try ")]
    for prefix in (*_COMMANDS, "error: ", "Batch job submission failed: "):
        lines = [line.removeprefix(prefix) for line in lines]
    return "; ".join(dict.fromkeys(lines))


def hint_for(text: str) -> str | None:
    """The hint for an error message; None if there is none."""
    lower = text.lower()
    return next((hint for words, hint in _HINTS.items() if any(word in lower for word in words)), None)
