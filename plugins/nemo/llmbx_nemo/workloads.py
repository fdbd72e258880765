"""The workloads of this plugin, loaded from its catalog together with their published results."""

from __future__ import annotations

from pathlib import Path

from llmbx.api import Workload, load_workloads

from .settings import NemoSettings

NAMES = (
    "llama3.1", "mlperf-llama3.1", "llama4", "grok1", "deepseek-v3", "kimi-k2", "qwen3", "gpt-oss", "nemotron3",
    "nemotron-h",
)  # fmt: skip


def workloads() -> list[Workload]:
    """Load every workload. Raises `UsageError` if a file of the catalog is invalid."""
    return load_workloads(Path(__file__).parent, NAMES, NemoSettings)
