"""Files of a run folder: the run's record, steps, result and earlier attempts."""
