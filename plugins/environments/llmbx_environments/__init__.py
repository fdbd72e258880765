"""Environments for runs: Python environments, container images, and what starts programs there."""
