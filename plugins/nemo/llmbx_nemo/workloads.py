"""The workloads of this plugin, read from its catalog with the figures that were published for them."""

from __future__ import annotations

from pathlib import Path

from llmbx.catalog.workloads import load_workloads
from llmbx.model import Workload

NAMES = ("llama3.1", "llama4", "grok1")


def workloads() -> list[Workload]:
    """Every workload, complete. Raises `UsageError` where a file of the catalog is wrong."""
    return load_workloads(Path(__file__).parent, NAMES)
