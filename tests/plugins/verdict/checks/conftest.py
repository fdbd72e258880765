"""Stored runs for the tests of checks."""

from __future__ import annotations

from ....run_factory import install, run_factory, spec

__all__ = ["install", "run_factory", "spec"]
