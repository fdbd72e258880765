"""Names in a run's folder: fixed by the recipes' output layout, or by what older versions of llmbx wrote.

This is the one place in core that may name tools: scripts of the recipes' users look for these files.
"""

from __future__ import annotations

from .spec import RunSpec

NOT_LOGS = ("*nccltrace*", "*nsys_analysis*", "sbatch_*", "*prepare_squad_dataset_exp*", "*import_ckpt_exp*")
"""Patterns of files that lie among the recipes' logs and are none."""

OLD_SPEC = {"scheduler": ("slurm", "sbatch"), "srun": ("slurm", "srun")}
"""Members that a specification had up to version 1 of the record -> the plugin and field that have their values now."""

MOVED = {"preflight": ("slurm", "preflight"), "gpu_metrics": ("nsys", "gpu_metrics")}
"""Members that a specification or its `profile` had in earlier records -> the plugin and field that have them now."""

OLD_TRACE = {"subsystems": "trace_subsystems", "file_per_rank": "trace_file_per_rank"}
"""Members that `RunSpec.trace` had then -> the setting of the tracing plugin that has their values now."""


def log_name(spec: RunSpec) -> str:
    """The main log: what the ranks print."""
    return f"log-{spec.experiment}.out"


def batch_name(spec: RunSpec) -> str:
    """The log of the job's script."""
    return f"sbatch_{spec.experiment}.out"
