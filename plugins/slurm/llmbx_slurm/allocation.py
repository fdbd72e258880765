"""Detect the Slurm allocation that llmbx runs in (salloc, an interactive job or a batch script of the user)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from llmbx.api import InfraError, RunSpec, Unreachable, UsageError, plural

from .commands import call
from .settings import sbatch_options, srun_options

JOB, HET_SIZE = "SLURM_JOB_ID", "SLURM_HET_SIZE"
NO_STEP = 0xFFFFFFF0
"""Step ids >= this value are reserved: batch script, interactive shell, extern (SLURM_PENDING_STEP, slurm.h)."""

STEP_OPTIONS = ("gres", "gpus-per-node")
"""sbatch options that also apply to steps inside an allocation."""

_GPUS = re.compile(r"(?<!\S)TRES=\S*\bgres/gpu=(\d+)")
_GPUS_PER_NODE = re.compile(r"(?<!\S)TresPerNode=\S*\bgpu(?::[\w.-]+)?[:=](\d+)")


class Allocation(msgspec.Struct, frozen=True):
    """The resources of a Slurm job: its nodes, CPUs and GPUs in total; `gpus` is None if Slurm does not report them.

    `overlap`: llmbx runs in a step that occupies the resources, so the run's steps must share them (srun --overlap).
    """

    job_id: str
    hosts: tuple[str, ...]
    cpus: int
    gpus: int | None = None
    overlap: bool = False

    def __str__(self) -> str:
        return f"Slurm job {self.job_id} ({', '.join(self.hosts)})"


def current_allocation(environ: Mapping[str, str], command: Callable[..., str] = call) -> Allocation | None:
    """The allocation that this process runs in; None outside of a Slurm job.

    Raises `UsageError` if the job has ended but its variables are still set, if it is a heterogeneous one, or if llmbx
    runs as several tasks.
    """
    job = environ.get(JOB, "")
    if not job:
        return None
    if (parts := environ.get(HET_SIZE, "")).isdigit() and int(parts) > 1:
        raise UsageError(
            f"Slurm job {job} is a heterogeneous allocation: {parts} parts of different nodes, and a training needs "
            f"equal ones: allocate one part (salloc without ':'), or run `unset {JOB} {HET_SIZE}` to submit a new job"
        )
    step = environ.get("SLURM_STEP_ID", "")
    in_step = step.isdigit() and int(step) < NO_STEP
    if in_step and environ.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        raise UsageError(
            f"llmbx was started as task {environ.get('SLURM_PROCID', '?')} of {environ['SLURM_STEP_NUM_TASKS']} "
            f"in step {job}.{step}: start llmbx only once, it starts the ranks (or use --launcher local)"
        )
    return _parse_job(job, _job_text(job, command), command, in_step)


def _job_text(job: str, command: Callable[..., str]) -> str:
    try:
        output = command("scontrol", "--oneliner", "show", "job", job)
    except Unreachable:
        raise
    except InfraError as error:
        if "Invalid job id" not in str(error):
            raise
        output = ""
    text = next((line for line in output.splitlines() if line.startswith(f"JobId={job} ")), "")
    state = _field(text, "JobState") or "not found"
    if state != "RUNNING":
        raise UsageError(
            f"{JOB} is set to {job}, but that job is not running ({state.lower()}): run `unset {JOB}` to submit a new "
            f"job, or use --launcher local"
        )
    return text


def _parse_job(job: str, text: str, command: Callable[..., str], overlap: bool) -> Allocation:
    hosts = tuple(command("scontrol", "show", "hostnames", _field(text, "NodeList")).split())
    total, per_node = _GPUS.search(text), _GPUS_PER_NODE.search(text)
    gpus = int(total[1]) if total else int(per_node[1]) * len(hosts) if per_node else None
    return Allocation(job_id=job, hosts=hosts, cpus=int(_field(text, "NumCPUs")), gpus=gpus, overlap=overlap)


def _field(text: str, name: str) -> str:
    match = re.search(rf"(?:^| ){name}=(\S*)", text)
    return match[1] if match else ""


def restricted(allocation: Allocation, spec: RunSpec, command: Callable[..., str] = call) -> Allocation:
    """The allocation reduced to the run's nodes: the first ones that `nodelist` and `exclude` allow.

    Raises `UsageError` if it has too few nodes or GPUs.
    """
    hosts, options = list(allocation.hosts), sbatch_options(spec)
    if options.get("nodelist"):
        allowed = command("scontrol", "show", "hostnames", options["nodelist"]).split()
        hosts = [host for host in hosts if host in allowed]
    if options.get("exclude"):
        excluded = command("scontrol", "show", "hostnames", options["exclude"]).split()
        hosts = [host for host in hosts if host not in excluded]
    _check(allocation, spec, hosts)
    return msgspec.structs.replace(allocation, hosts=tuple(hosts[: spec.nodes]))


def _check(allocation: Allocation, spec: RunSpec, hosts: list[str]) -> None:
    larger = f"allocate more, or run `unset {JOB}` to submit a new job"
    if len(hosts) < spec.nodes:
        fewer = len(hosts) < len(allocation.hosts)
        available = f"{len(hosts)} of {len(allocation.hosts)} after nodelist and exclude" if fewer else f"{len(hosts)}"
        raise UsageError(f"the run needs {plural(spec.nodes, 'nodes')}, but {allocation} has {available}: {larger}")
    if spec.gpu_type == "cpu" or allocation.gpus is None:
        return
    here = allocation.gpus // len(allocation.hosts)
    if here < spec.gpus_per_node:
        raise UsageError(
            f"the run needs {plural(spec.gpus_per_node, 'GPUs')} per node, but {allocation} has {here}: {larger}"
        )


def check_cpus(allocation: Allocation, ranks: int, spec: RunSpec) -> None:
    """Raise `UsageError` if the ranks need more CPUs than the allocation has."""
    steps = srun_options(spec)
    per_task = sbatch_options(spec).get("cpus-per-task") or steps.get("cpus-per-task") or "1"
    needed = ranks * int(per_task) if per_task.isdigit() else ranks
    if needed > allocation.cpus and not {"overcommit", "O"} & steps.keys():
        raise UsageError(
            f"the run's {ranks} ranks need {needed} CPUs, but {allocation} has {allocation.cpus}: allocate with "
            f"--ntasks-per-node={-(-ranks // max(1, spec.nodes))} or --exclusive"
        )
