"""Python environments built from a workload's lock."""
