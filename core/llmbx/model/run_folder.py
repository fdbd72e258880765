"""Names in a run's folder, fixed by the recipes' output layout.

This is the one place in core that may name tools: scripts of the recipes' users look for these files.
"""

from __future__ import annotations

from .spec import RunSpec


def log_name(spec: RunSpec) -> str:
    """The main log: what the ranks print."""
    return f"log-{spec.experiment}.out"


def batch_name(spec: RunSpec) -> str:
    """The log of the job's script."""
    return f"sbatch_{spec.experiment}.out"
