"""Importing on a compute node: an image is large, and login nodes often forbid or cannot do it. Pure rendering."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.model import Value


class NodeImport(Value, frozen=True):
    """What is to be imported on a node: the reference, for which runtime, and what it must be."""

    reference: str
    runtime: str
    digest: str | None = None
    accept_change: bool = False
    timeout_s: float | None = None


def import_command(wanted: NodeImport, program: Sequence[str]) -> tuple[str, ...]:
    """`llmbx image prepare` as it is run on the node; `program` starts llmbx."""
    argv = [*program, "image", "prepare", wanted.reference, "--check", "--runtime", wanted.runtime]
    argv += ["--launcher", "local"]
    argv += ["--digest", wanted.digest] if wanted.digest else []
    argv += ["--accept-image-change"] if wanted.accept_change else []
    argv += ["--timeout", f"{wanted.timeout_s:g}"] if wanted.timeout_s is not None else []
    return tuple(argv)
