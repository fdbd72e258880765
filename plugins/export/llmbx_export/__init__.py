"""Export the figures of runs to monitoring and experiment tracking."""
