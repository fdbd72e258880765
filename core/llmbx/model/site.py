"""What a launcher knows about its cluster, for the profile that `llmbx init` writes."""

from __future__ import annotations

from .base import Scalar, Value


class Proposal(Value, frozen=True):
    """A launcher's part of a cluster profile."""

    gpu_name: str | None = None
    """How the scheduler calls the nodes' GPUs: a product name, or a part of it such as h100."""
    gpus_per_node: int | None = None
    """Number of GPUs of a node."""
    settings: dict[str, Scalar] = {}
    """Settings of the launcher's plugin."""
    comments: dict[str, str] = {}
    """What is known about a setting, by its name; one that `settings` does not have is written as a comment."""
