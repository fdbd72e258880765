"""The program that runs on each node: one file, without llmbx."""
