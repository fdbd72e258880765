"""The core's own launchers, registered through the hook that third parties use."""

from __future__ import annotations

from collections.abc import Sequence

from ..hookspecs import hookimpl
from .base import Launcher


@hookimpl
def register_launchers() -> Sequence[Launcher]:
    """Local processes and Slurm."""
    from .local import LocalLauncher
    from .slurm import SlurmLauncher

    return [LocalLauncher(), SlurmLauncher()]
