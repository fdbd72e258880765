"""The Slurm allocation that llmbx itself was started in (salloc, an interactive job, a script of the user's own)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from llmbx.errors import InfraError, UsageError
from llmbx.launchers.base import Unreachable
from llmbx.model import RunSpec

from .settings import sbatch_options, srun_options
from .tools import call

JOB = "SLURM_JOB_ID"
NO_STEP = 0xFFFFFFF0
"""Step ids from here on are Slurm's own: batch script, interactive shell, extern (SLURM_PENDING_STEP, slurm.h)."""

STEP_OPTIONS = ("gres", "gpus-per-node")
"""Options of sbatch that a step inside an allocation takes as well."""

_GPUS = re.compile(r"\bTRES=\S*\bgres/gpu=(\d+)")
_GPUS_PER_NODE = re.compile(r"\bTresPerNode=\S*\bgpu(?::[\w.-]+)?[:=](\d+)")


class Allocation(msgspec.Struct, frozen=True):
    """What a job has for a run inside it; `gpus` is None where Slurm does not count them.

    `overlap`: llmbx is itself a task of one of its steps, which holds what the run's steps need.
    """

    job_id: str
    hosts: tuple[str, ...]
    cpus: int
    gpus: int | None = None
    overlap: bool = False

    def __str__(self) -> str:
        return f"Slurm job {self.job_id} ({', '.join(self.hosts)})"


def surrounding(environ: Mapping[str, str], command: Callable[..., str] = call) -> Allocation | None:
    """The allocation around this process; None outside of any.

    Raises `UsageError` where its job has ended (a shell that outlived it) or where several tasks of it run llmbx.
    """
    job = environ.get(JOB, "")
    if not job:
        return None
    step = environ.get("SLURM_STEP_ID", "")
    in_step = step.isdigit() and int(step) < NO_STEP
    if in_step and environ.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        raise UsageError(
            f"llmbx was started as task {environ.get('SLURM_PROCID', '?')} of {environ['SLURM_STEP_NUM_TASKS']} "
            f"in step {job}.{step}: start it once, it starts the ranks itself (or use --launcher local)"
        )
    return _read(job, _ask(job, command), command, in_step)


def _ask(job: str, command: Callable[..., str]) -> str:
    try:
        shown = command("scontrol", "--oneliner", "show", "job", job)
    except Unreachable:
        raise
    except InfraError as error:
        if "Invalid job id" not in str(error):
            raise
        shown = ""
    text = next((line for line in shown.splitlines() if line.startswith(f"JobId={job} ")), "")
    state = _field(text, "JobState") or "not known any more"
    if state != "RUNNING":
        raise UsageError(
            f"{JOB}={job} says that this is Slurm job {job}, which is {state.lower()}: "
            f"`unset {JOB}` to submit a job of its own, or use --launcher local"
        )
    return text


def _read(job: str, text: str, command: Callable[..., str], overlap: bool) -> Allocation:
    hosts = tuple(command("scontrol", "show", "hostnames", _field(text, "NodeList")).split())
    total, each = _GPUS.search(text), _GPUS_PER_NODE.search(text)
    gpus = int(total[1]) if total else int(each[1]) * len(hosts) if each else None
    return Allocation(job_id=job, hosts=hosts, cpus=int(_field(text, "NumCPUs")), gpus=gpus, overlap=overlap)


def _field(text: str, name: str) -> str:
    found = re.search(rf"(?:^| ){name}=(\S*)", text)
    return found[1] if found else ""


def narrowed(allocation: Allocation, spec: RunSpec, command: Callable[..., str] = call) -> Allocation:
    """The part of the allocation that the run takes: the first of its nodes that `nodelist` and `exclude` leave.

    Raises `UsageError`, with both numbers, where it is too small.
    """
    hosts, options = list(allocation.hosts), sbatch_options(spec)
    if options.get("nodelist"):
        asked = command("scontrol", "show", "hostnames", options["nodelist"]).split()
        hosts = [host for host in hosts if host in asked]
    if options.get("exclude"):
        left_out = command("scontrol", "show", "hostnames", options["exclude"]).split()
        hosts = [host for host in hosts if host not in left_out]
    _check(allocation, spec, hosts)
    return msgspec.structs.replace(allocation, hosts=tuple(hosts[: spec.nodes]))


def _check(allocation: Allocation, spec: RunSpec, hosts: list[str]) -> None:
    larger = f"take a larger one, or `unset {JOB}` to submit a job of its own"
    if len(hosts) < spec.nodes:
        fewer = len(hosts) < len(allocation.hosts)
        those = f"{len(hosts)} that nodelist and exclude leave of {len(allocation.hosts)}" if fewer else f"{len(hosts)}"
        raise UsageError(f"the run takes {_count(spec.nodes, 'node')} and {allocation} has {those}: {larger}")
    if spec.gpu_type == "cpu" or allocation.gpus is None:
        return
    here = allocation.gpus // len(allocation.hosts)
    if here < spec.gpus_per_node:
        raise UsageError(
            f"the run takes {_count(spec.gpus_per_node, 'GPU')} on each node and {allocation} has {here}: {larger}"
        )


def check_cpus(allocation: Allocation, ranks: int, spec: RunSpec) -> None:
    """Raise `UsageError`, with both numbers, where the ranks need more CPUs than the allocation has."""
    steps = srun_options(spec)
    each = sbatch_options(spec).get("cpus-per-task") or steps.get("cpus-per-task") or "1"
    needed = ranks * int(each) if each.isdigit() else ranks
    if needed > allocation.cpus and not {"overcommit", "O"} & steps.keys():
        raise UsageError(
            f"the run's {ranks} ranks take {needed} CPUs and {allocation} has {allocation.cpus}: allocate it with "
            f"--ntasks-per-node={-(-ranks // max(1, spec.nodes))} or --exclusive"
        )


def _count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
