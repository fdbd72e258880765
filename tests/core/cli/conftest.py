"""An install with stored runs, for the verbs."""

from ...run_factory import install, run_factory, spec  # noqa: F401
