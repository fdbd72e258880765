"""Slurm: jobs submitted with sbatch, one srun a phase, or steps inside an allocation."""
