"""Fixtures for the explanations of runs."""

from __future__ import annotations

from ...run_factory import install, run_factory, spec

__all__ = ["install", "run_factory", "spec"]
