"""Modules for programs that run inside an environment or image: Python 3.10 and the standard library, nothing of llmbx.

llmbx is not installed there: these modules are copied into the run folder with the launch (see
`llmbx.plugins.payload`). Plugins bring further ones, which lie beside them in the run folder: a program
that can do without imports one in a `try` with `except ImportError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

GROUP = "llmbx.entry"
"""Entry points of plugins: the name of a module here, and the module."""


def __getattr__(name: str) -> Any:
    """Return a module that a plugin brings, where llmbx is installed."""
    if not (name.startswith("_") or Path(__file__).with_name(f"{name}.py").exists()):
        from importlib import metadata

        for point in metadata.entry_points(group=GROUP, name=name):
            return point.load()
    raise AttributeError(f"no module {__name__}.{name}: no installed plugin brings it")
