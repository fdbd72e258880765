"""The plugin `containers`: the runtimes docker, apptainer, enroot and pyxis."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Runtime, hookimpl


@hookimpl
def register_runtimes() -> Sequence[Runtime]:
    """Register one runtime for each container tool."""
    from .runtimes.apptainer import ApptainerRuntime
    from .runtimes.docker import DockerRuntime
    from .runtimes.enroot import EnrootRuntime
    from .runtimes.pyxis import PyxisRuntime

    return [DockerRuntime(), ApptainerRuntime(), EnrootRuntime(), PyxisRuntime()]
