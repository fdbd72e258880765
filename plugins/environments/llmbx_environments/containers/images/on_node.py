"""The command that imports an image on a compute node; login nodes often cannot import images."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Value


class NodeImport(Value, frozen=True):
    """An import on a node: the reference, the runtime, the expected digest, and the time limit."""

    reference: str
    runtime: str
    digest: str | None = None
    accept_change: bool = False
    timeout_s: float | None = None


def import_command(job: NodeImport, program: Sequence[str]) -> tuple[str, ...]:
    """The `llmbx image prepare` command; `program` is the argv that starts llmbx."""
    argv = [*program, "image", "prepare", job.reference, "--check", "--runtime", job.runtime]
    argv += ["--launcher", "local"]
    if job.digest:
        argv += ["--digest", job.digest]
    if job.accept_change:
        argv.append("--accept-image-change")
    if job.timeout_s is not None:
        argv += ["--timeout", f"{job.timeout_s:g}"]
    return tuple(argv)
