"""The in-tree runtimes, registered through the same hook that third parties use."""

from __future__ import annotations

from collections.abc import Sequence

from ..hookspecs import hookimpl
from .apptainer import ApptainerRuntime
from .base import Runtime
from .docker import DockerRuntime
from .enroot import EnrootRuntime
from .host import HostRuntime
from .pyxis import PyxisRuntime
from .venv import VenvRuntime


@hookimpl
def register_runtimes() -> Sequence[Runtime]:
    """venv, host, docker, apptainer, enroot and pyxis."""
    return [VenvRuntime(), HostRuntime(), DockerRuntime(), ApptainerRuntime(), EnrootRuntime(), PyxisRuntime()]
