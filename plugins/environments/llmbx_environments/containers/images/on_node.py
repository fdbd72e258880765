"""The command that imports an image on a compute node; login nodes often cannot import images."""

from __future__ import annotations

from llmbx.api import ImageRequest


def import_command(
    program: str, request: ImageRequest, runtime: str, timeout_s: float | None = None
) -> tuple[str, ...]:
    """The `llmbx image prepare` command; `program` is llmbx."""
    argv = [program, "image", "prepare", request.reference or "", "--check", "--runtime", runtime]
    argv += ["--launcher", "local"]
    if request.digest:
        argv += ["--digest", request.digest]
    if request.accept_change:
        argv.append("--accept-image-change")
    if timeout_s is not None:
        argv += ["--timeout", f"{timeout_s:g}"]
    return tuple(argv)
