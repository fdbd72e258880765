"""Which of Slurm's reasons for a pending job mean that the job can never start as it was submitted.

Source: Slurm's page "Job Reason Codes" (slurm.schedmd.com/job_reason_codes.html). Limits per job and per node, minima,
and invalid names do not pass by themselves. Limits that other jobs use up (`AssocGrp*`, `QOSGrp*`, `*PerUser*`,
`*PerAccount`), nodes that are down or reserved (`ReqNodeNotAvail`, `PartitionDown`) and jobs on hold may pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from llmbx.api import InfraError

from .commands import call

_NEVER = {
    "PartitionTimeLimit": "its time limit exceeds the partition's: set a shorter one with --walltime (limits: "
    "`sinfo -o '%P %l'`)",
    "BadConstraints": "no node can satisfy its requirements: see `sinfo -o '%P %D %c %m %G %f'` and correct gres, "
    "gpus-per-node, mem or constraint",
    "AccountNotAllowed": "the partition does not allow the account: choose another with --slurm-account or "
    "--slurm-partition",
    "InvalidAccount": "the account is not valid: choose another with --slurm-account",
    "InvalidQOS": "the QOS is not valid: choose another with --slurm-qos",
    "QOSNotAllowed": "the account or the partition does not allow the QOS: choose another with --slurm-qos",
    "DependencyNeverSatisfied": "the job that it depends on did not end as required: correct dependency",
    "ReservationDeleted": "the reservation does not exist any more: correct --slurm-reservation",
    "DeadLine": "it cannot end before its deadline: correct deadline or the time limit",
    "MaxMemPerLimit": "it asks for more memory per node or CPU than allowed: correct mem or mem-per-cpu",
}
_ABOVE = re.compile(r"(?P<who>Assoc|QOS)Max\w+Per(?:Job|Node)(?:Limit)?")
_BELOW = re.compile(r"QOSMin\w+")
OF_THE_JOB = frozenset({"InvalidAccount", "DependencyNeverSatisfied", "ReservationDeleted", "DeadLine"})
"""Reasons that hold whatever the partition is."""
NODES = "PartitionNodeLimit"
"""The reason that needs `too_many_nodes`."""


def code_of(reason: str) -> str:
    """The code in squeue's reason, which may have details: `ReqNodeNotAvail, UnavailableNodes:n1`."""
    match = re.match(r"\w+", reason)
    return match[0] if match else ""


def why_never(code: str) -> str | None:
    """Why a pending job with this reason can never start, and what to change; None if it may start later."""
    if code in _NEVER:
        return _NEVER[code]
    if match := _ABOVE.fullmatch(code):
        who = "the QOS allows" if match["who"] == "QOS" else "your account's association allows"
        return f"it asks for more than {who} for one job: see `sacctmgr show {'qos' if 'QOS' in who else 'assoc'}`"
    if _BELOW.fullmatch(code):
        return "it asks for less than the QOS requires: see `sacctmgr show qos`"
    return None


def has_one_partition(cluster: tuple[str, ...], number: str, command: Callable[..., str] = call) -> bool:
    """Whether a job was submitted to one partition; False if this is unknown.

    Of a job for several partitions, squeue has the reason of the one that the scheduler looked at last.
    """
    try:
        job = _fields(command("scontrol", *cluster, "--oneliner", "show", "job", number))
    except InfraError:
        return False
    return "," not in job.get("Partition", ",")


def too_many_nodes(cluster: tuple[str, ...], number: str, command: Callable[..., str] = call) -> str | None:
    """Why a job with the reason `PartitionNodeLimit` can never start; None if it may start later or this is unknown.

    Slurm has this reason also for nodes that are down, so the numbers are compared. `cluster` is the option for another
    cluster, `number` the job's.
    """
    try:
        job = _fields(command("scontrol", *cluster, "--oneliner", "show", "job", number))
        names = job.get("Partition", "").split(",")
        partitions = [_fields(command("scontrol", *cluster, "--oneliner", "show", "partition", name)) for name in names]
    except InfraError:
        return None
    nodes = _number(job.get("NumNodes"))
    if nodes is None or not partitions:
        return None
    limits = [_limits(partition, nodes) for partition in partitions]
    return _beyond(nodes, limits) if all(limits) else None


def too_large(nodes: int, chosen: str | None, command: Callable[..., str] = call) -> str | None:
    """Why no partition can ever run a job on this many nodes; None if one can, or if this is unknown.

    `chosen` are the names of partitions that the job is submitted to, separated by commas; None is the default one.
    """
    try:
        text = command("scontrol", "--oneliner", "show", "partition")
    except InfraError:
        return None
    partitions = [_fields(line) for line in text.splitlines() if line.strip()]
    defaults = [partition for partition in partitions if partition.get("Default") == "YES"]
    names = chosen.split(",") if chosen else [partition.get("PartitionName") for partition in defaults]
    candidates = [partition for partition in partitions if partition.get("PartitionName") in names]
    limits = [_limits(partition, nodes) for partition in candidates]
    all_known = bool(candidates) and len(candidates) == len(names)
    return _beyond(nodes, limits) if all_known and all(limits) else None


def _beyond(nodes: int, limits: Sequence[str | None]) -> str:
    requested = "1 node" if nodes == 1 else f"{nodes} nodes"
    return f"it asks for {requested}, but {'; '.join(filter(None, limits))}: choose another with --slurm-partition"


def _limits(partition: Mapping[str, str], nodes: int) -> str | None:
    """How a partition rules out a job on this number of nodes; None if it does not."""
    name = partition.get("PartitionName", "?")
    least, most = _number(partition.get("MinNodes")), _number(partition.get("MaxNodes"))
    total = _number(partition.get("TotalNodes"))
    if most is not None and nodes > most:
        return f"the partition {name} allows at most {most} (MaxNodes)"
    if least is not None and nodes < least:
        return f"the partition {name} requires at least {least} (MinNodes)"
    if total is not None and nodes > total:
        return f"the partition {name} has {total}"
    return None


def _fields(text: str) -> dict[str, str]:
    """The fields of scontrol's output in one line, such as `MaxNodes=2`; the first of a name counts."""
    fields: dict[str, str] = {}
    for part in text.split():
        name, equals, value = part.partition("=")
        if equals:
            fields.setdefault(name, value)
    return fields


def _number(text: str | None) -> int | None:
    """A number, or the first of a range; None for UNLIMITED and for anything else."""
    first = (text or "").partition("-")[0]
    return int(first) if first.isdigit() else None
