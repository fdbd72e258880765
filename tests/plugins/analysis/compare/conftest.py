"""Fixtures: stored runs to compare."""

from ....shelf import install, plugins, profiled, row, shelf, spec, toy  # noqa: F401
