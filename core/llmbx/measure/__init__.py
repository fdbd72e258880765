"""Compute the metrics of a result from the measured steps: windows, statistics and confidence intervals."""
