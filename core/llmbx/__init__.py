"""llmbx runs LLM pre-training benchmarks and says whether the number is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pluggy

    from llmbx_history.loaded import Runs as Runs
    from llmbx_history.loaded import load_runs as load_runs

    hookimpl: pluggy.HookimplMarker
    """Marks a function as the implementation of a hook: `@hookimpl`, or with options of pluggy
    (`@hookimpl(optionalhook=True)`).
    """

__version__ = "0.1.0"
__all__ = ["Runs", "__version__", "hookimpl", "load_runs"]

_LOADED = ("Runs", "load_runs")


def __getattr__(name: str) -> Any:
    """Names that are imported when they are asked for.

    `hookimpl` is the marker of hook implementations, `load_runs` of the plugin `history` reads earlier runs.
    """
    if name == "hookimpl":
        import pluggy

        return pluggy.HookimplMarker(__name__)
    if name in _LOADED:
        import importlib

        return getattr(importlib.import_module("llmbx_history.loaded"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
