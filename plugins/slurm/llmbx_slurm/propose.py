"""Slurm's part of a cluster profile: the partition with GPUs, and the accounts of this user."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable

from llmbx.api import InfraError, Proposal, Scalar, Value, plural

from .commands import call

FORMAT = "%P|%D|%G|%l|%a"
"""Of sinfo: partition (the default one ends with *), nodes, generic resources, time limit, state."""

GPU = re.compile(r"\bgpu:(?:(?P<name>[^:,()]+):)?(?P<count>\d+)")
"""The GPUs of a node in sinfo's list of generic resources: gpu:8, gpu:h100:8(S:0-1)."""


class Partition(Value, frozen=True):
    """Nodes of one kind in a partition; `gpus` is the number of GPUs of a node."""

    name: str
    nodes: int
    gpus: int = 0
    gpu_name: str | None = None
    limit: str = ""
    default: bool = False

    def __str__(self) -> str:
        """In a few words, for a comment."""
        gpus = f" with {self.gpus} {self.gpu_name or 'GPUs'}" if self.gpus else ""
        limit = "" if self.limit in ("", "infinite") else f", at most {self.limit}"
        return f"{self.name}: {plural(self.nodes, 'nodes')}{gpus}{limit}"


def propose() -> Proposal:
    """The profile's values for the cluster of this machine. Raises `InfraError` if Slurm does not answer."""
    return proposal(partitions(call("sinfo", "--noheader", f"--format={FORMAT}", timeout_s=15)), accounts())


def partitions(text: str) -> list[Partition]:
    """The partitions that are up, from sinfo's output; lines that cannot be read are left out."""
    usable = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 5 or not parts[1].isdigit() or not parts[4].startswith("up"):
            continue
        gpu = GPU.search(parts[2])
        usable.append(
            Partition(
                name=parts[0].rstrip("*"),
                nodes=int(parts[1]),
                gpus=int(gpu["count"]) if gpu else 0,
                gpu_name=gpu["name"] if gpu else None,
                limit=parts[3],
                default=parts[0].endswith("*"),
            )
        )
    return usable


def accounts() -> list[str]:
    """The accounts of this user; empty without accounting."""
    user = f"user={getpass.getuser()}"
    try:
        text = call(
            "sacctmgr", "--noheader", "--parsable2", "show", "associations", user, "format=Account", timeout_s=15
        )
    except InfraError:
        return []
    return sorted({line.strip() for line in text.splitlines() if line.strip()})


def _size(partition: Partition) -> tuple[bool, bool, int, int]:
    gpus = partition.nodes * partition.gpus
    return bool(partition.gpus), partition.default, gpus, partition.nodes


def proposal(usable: Iterable[Partition], accounts: Iterable[str]) -> Proposal:
    """The default partition if it has GPUs, else the one with most GPUs; the account if there is only one."""
    candidates, own_accounts = list(usable), list(accounts)
    best = max(candidates, key=_size, default=None)
    settings: dict[str, Scalar] = {}
    comments: dict[str, str] = {}
    if best is not None:
        settings["partition"] = best.name
        comments["partition"] = "; ".join(
            [str(best), *(str(partition) for partition in candidates if partition is not best)]
        )
    if len(own_accounts) == 1:
        settings["account"] = own_accounts[0]
    elif own_accounts:
        comments["account"] = f"one of {', '.join(own_accounts)}"
    else:
        comments["account"] = "Slurm names no account of this user"
    if best is None or not best.gpus:
        return Proposal(settings=settings, comments=comments)
    settings["gres"] = f"gpu:{best.gpus}"
    return Proposal(gpu_name=best.gpu_name, gpus_per_node=best.gpus, settings=settings, comments=comments)
