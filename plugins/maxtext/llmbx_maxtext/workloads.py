"""The workloads of this plugin, loaded from its catalog together with their published results."""

from __future__ import annotations

from pathlib import Path

from llmbx.api import Workload, load_workloads

from .settings import MaxtextSettings

NAMES = (
    "llama2",
    "maxtext-deepseek-v3",
    "maxtext-gpt-oss",
    "maxtext-llama3.1",
    "maxtext-qwen3",
    "mixtral",
)


def workloads() -> list[Workload]:
    """Load every workload. Raises `UsageError` if a file of the catalog is invalid."""
    return load_workloads(Path(__file__).parent, NAMES, MaxtextSettings)
