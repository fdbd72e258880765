"""Read training logs of any origin: `llmbx parse`, and the readers of files of records."""
