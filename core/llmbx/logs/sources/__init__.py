"""Read other files of a run than its log: JSON lines, event files, offline run files and the logs of ranks."""
