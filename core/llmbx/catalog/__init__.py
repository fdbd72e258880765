"""Workloads, references, environments and GPU types: the data that a request is resolved against."""
