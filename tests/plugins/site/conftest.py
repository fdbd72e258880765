"""An install with stored runs."""

from ...run_factory import install, run_factory, spec  # noqa: F401
