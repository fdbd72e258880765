"""llmbx runs LLM pre-training benchmarks and says whether the number is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pluggy

    hookimpl: pluggy.HookimplMarker

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    """`hookimpl`, the marker of hook implementations: pluggy is imported when a plugin asks for it."""
    if name != "hookimpl":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pluggy

    return pluggy.HookimplMarker(__name__)
