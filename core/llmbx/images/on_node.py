"""Importing on a compute node: an image is large, and login nodes often forbid or cannot do it. Pure rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Value

PASSED = ("account", "partition", "qos", "reservation", "constraint", "time")
"""Options of the scheduler that an import takes over from the cluster profile and the command line."""


class NodeImport(Value, frozen=True):
    """What is to be imported on a node: the reference, for which runtime, and what it must be."""

    reference: str
    runtime: str
    digest: str | None = None
    accept_change: bool = False
    timeout_s: float | None = None


def srun_command(wanted: NodeImport, scheduler: Mapping[str, str], program: Sequence[str]) -> tuple[str, ...]:
    """srun with one task on one node that runs `llmbx image prepare` there; it waits for the end of the import."""
    options = [f"--{name}={scheduler[name]}" for name in PASSED if scheduler.get(name)]
    inner = [*program, "image", "prepare", wanted.reference, "--check", "--runtime", wanted.runtime]
    inner += ["--launcher", "local"]
    inner += ["--digest", wanted.digest] if wanted.digest else []
    inner += ["--accept-image-change"] if wanted.accept_change else []
    inner += ["--timeout", f"{wanted.timeout_s:g}"] if wanted.timeout_s is not None else []
    return ("srun", "--nodes=1", "--ntasks=1", "--job-name=llmbx-image", *options, *inner)
