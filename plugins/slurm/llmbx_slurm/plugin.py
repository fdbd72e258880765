"""The plugin `slurm`: the launcher `slurm` and its settings."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Launcher, Settings, hookimpl


@hookimpl
def register_settings() -> type[Settings]:
    """Register the settings for options of sbatch and srun."""
    from .settings import SlurmSettings

    return SlurmSettings


@hookimpl
def register_launchers() -> Sequence[Launcher]:
    """Register the launcher `slurm`."""
    from .inside import inside
    from .launcher import SlurmLauncher

    return [SlurmLauncher(inside)]
