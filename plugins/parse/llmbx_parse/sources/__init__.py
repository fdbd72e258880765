"""Readers of files of records: JSON lines, TensorBoard event files and offline runs of W&B."""
