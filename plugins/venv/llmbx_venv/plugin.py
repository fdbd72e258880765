"""The plugin `venv`: the runtime `venv`."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import hookimpl
from llmbx.api import Runtime


@hookimpl
def register_runtimes() -> Sequence[Runtime]:
    """Register the runtime `venv`."""
    from .runtime import VenvRuntime

    return [VenvRuntime()]
