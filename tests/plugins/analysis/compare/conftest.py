"""Runs on a shelf, to be compared."""

from ....shelf import install, plugins, profiled, row, shelf, spec, toy  # noqa: F401
