"""The plugin `slurm`: the launcher `slurm` and its settings."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx import hookimpl
from llmbx.launchers.base import Launcher
from llmbx.model.settings import Settings


@hookimpl
def register_settings() -> type[Settings]:
    """Register the settings for options of sbatch and srun."""
    from .settings import SlurmSettings

    return SlurmSettings


@hookimpl
def register_launchers() -> Sequence[Launcher]:
    """Register the launcher `slurm`."""
    from .launcher import SlurmLauncher

    return [SlurmLauncher()]
