"""Published figures as one table, and predictions that are calibrated on it."""
