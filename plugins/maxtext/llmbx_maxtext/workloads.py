"""The workloads of this plugin, read from its catalog with the figures that were published for them."""

from __future__ import annotations

from pathlib import Path

from llmbx.catalog import load_workload
from llmbx.model import Workload

PUBLISHED = {"llama2": True, "mixtral": False}
"""Each workload, and whether there are published figures of it."""


def workloads() -> list[Workload]:
    """Every workload, complete. Raises `UsageError` where a file of the catalog is wrong."""
    root = Path(__file__).parent
    return [
        load_workload(root / "catalog" / f"{name}.toml", root / "references" / f"{name}.toml" if published else None)
        for name, published in PUBLISHED.items()
    ]
