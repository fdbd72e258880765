"""Workloads, published results, environment locks and GPU types: the data that a request is resolved against."""
