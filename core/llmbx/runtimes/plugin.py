"""The in-tree runtimes, registered through the same hook that third parties use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..hookspecs import hookimpl

if TYPE_CHECKING:
    from .base import Runtime


@hookimpl
def register_runtimes() -> Sequence[Runtime]:
    """venv, host, docker, apptainer, enroot and pyxis."""
    # Imported here, because this module is loaded by every command and the runtimes are needed by few.
    from .apptainer import ApptainerRuntime
    from .docker import DockerRuntime
    from .enroot import EnrootRuntime
    from .host import HostRuntime
    from .pyxis import PyxisRuntime
    from .venv import VenvRuntime

    return [VenvRuntime(), HostRuntime(), DockerRuntime(), ApptainerRuntime(), EnrootRuntime(), PyxisRuntime()]
