"""Podman as a runtime of llmbx."""

from llmbx.api import hookimpl

from .runtime import PodmanRuntime
from .settings import PodmanSettings

LLMBX_API = (3, 0)


@hookimpl
def register_settings() -> type[PodmanSettings]:
    return PodmanSettings


@hookimpl
def register_runtimes() -> list[PodmanRuntime]:
    return [PodmanRuntime()]
