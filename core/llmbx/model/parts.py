"""Small records that a workload, a specification and a result share."""

from __future__ import annotations

from typing import Literal

from .base import Value

Convention = Literal["full", "causal"]
"""How the FLOPs of attention are counted: with the full S x S matrix, or with the half left by a causal mask."""

Kind = Literal["table", "example", "other"]
"""Kinds of published results, in the order in which one is chosen for a comparison."""


class Parallelism(Value, frozen=True):
    """Degrees of parallelism, under the recipes' abbreviations; None if one does not apply."""

    tp: int = 1
    """Tensor parallelism."""
    pp: int = 1
    """Pipeline parallelism."""
    cp: int = 1
    """Context parallelism."""
    ep: int | None = None
    """Expert parallelism."""
    etp: int | None = None
    """Tensor parallelism inside the experts."""
    dp: int = 1
    """Data parallelism; it follows from the others and the number of GPUs."""
    vp: int | None = None
    """Virtual (interleaved) pipeline stages."""
    fsdp: bool | int = False
    """Fully sharded data parallelism: on or off, or a degree for frameworks that take one."""


class ImageSource(Value, frozen=True):
    """Reference of a container image."""

    reference: str
    """REGISTRY#NAME:TAG (`registry.example.com#team/train:25.04`) or a file."""
    digest: str | None = None
    """Required digest."""
    source: str = ""
    """Where the reference was set."""


class Checkpointing(Value, frozen=True):
    """Known properties of a size's checkpoints."""

    size_gb: float
    """Size on disk in gigabytes."""
    save_gpus: tuple[int, int]
    """Smallest and largest number of GPUs for which saving is supported."""
    load_min_gpus: int
    """Smallest number of GPUs for which loading is supported."""
