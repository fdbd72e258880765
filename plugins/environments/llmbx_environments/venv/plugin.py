"""The plugin `venv`: the runtime `venv` and its settings."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Runtime, Settings, hookimpl


@hookimpl
def register_settings() -> type[Settings]:
    """Register the settings of environments."""
    from .settings import VenvSettings

    return VenvSettings


@hookimpl
def register_runtimes() -> Sequence[Runtime]:
    """Register the runtime `venv`."""
    from .runtime import VenvRuntime

    return [VenvRuntime()]
