"""Fixtures: stored runs to compare."""

from ....run_factory import install, plugins, profiled, row, run_factory, spec, toy  # noqa: F401
