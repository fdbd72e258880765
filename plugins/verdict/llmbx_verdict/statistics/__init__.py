"""Statistics of step times: intervals of means and of changes, levels, drifts and outliers of a series."""
