"""The plugin `venv`: the runtime `venv`."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx import hookimpl
from llmbx.runtimes.base import Runtime


@hookimpl
def register_runtimes() -> Sequence[Runtime]:
    """Register the runtime `venv`."""
    from .runtime import VenvRuntime

    return [VenvRuntime()]
