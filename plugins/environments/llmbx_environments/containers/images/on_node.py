"""Render the command that imports an image on a compute node; login nodes often cannot import large images."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Value


class NodeImport(Value, frozen=True):
    """An import on a node: the reference, the runtime, the expected digest, and the timeout in seconds."""

    reference: str
    runtime: str
    digest: str | None = None
    accept_change: bool = False
    timeout_s: float | None = None


def import_command(wanted: NodeImport, program: Sequence[str]) -> tuple[str, ...]:
    """The `llmbx image prepare` command to run on the node; `program` is the argv that starts llmbx."""
    argv = [*program, "image", "prepare", wanted.reference, "--check", "--runtime", wanted.runtime]
    argv += ["--launcher", "local"]
    argv += ["--digest", wanted.digest] if wanted.digest else []
    argv += ["--accept-image-change"] if wanted.accept_change else []
    argv += ["--timeout", f"{wanted.timeout_s:g}"] if wanted.timeout_s is not None else []
    return tuple(argv)
