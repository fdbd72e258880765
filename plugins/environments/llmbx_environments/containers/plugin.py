"""The plugin `containers`: the runtimes docker, apptainer, enroot and pyxis, and their settings."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Runtime, Settings, hookimpl


@hookimpl
def register_settings() -> type[Settings]:
    """Register the limits of image imports."""
    from .settings import ContainerSettings

    return ContainerSettings


@hookimpl
def register_runtimes() -> Sequence[Runtime]:
    """Register one runtime for each container tool."""
    from .runtimes.apptainer import ApptainerRuntime
    from .runtimes.docker import DockerRuntime
    from .runtimes.enroot import EnrootRuntime
    from .runtimes.pyxis import PyxisRuntime

    return [DockerRuntime(), ApptainerRuntime(), EnrootRuntime(), PyxisRuntime()]
