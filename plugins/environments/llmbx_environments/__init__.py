"""Environments and images for runs: Python environments, container images, and the tools that start them."""
