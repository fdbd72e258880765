"""Core's own launcher and runtime, registered through the hooks that third parties use."""

from __future__ import annotations

from collections.abc import Sequence

from . import hookimpl
from .launchers.base import Launcher
from .runtimes.base import Runtime


@hookimpl
def register_launchers() -> Sequence[Launcher]:
    """Register the launcher `local`: processes on this machine."""
    from .launchers.local import LocalLauncher

    return [LocalLauncher()]


@hookimpl
def register_runtimes() -> Sequence[Runtime]:
    """Register the runtime `host`: the Python of this machine."""
    from .runtimes.host import HostRuntime

    return [HostRuntime()]
