"""The Slurm launcher: jobs submitted with sbatch, or job steps inside an existing allocation."""
