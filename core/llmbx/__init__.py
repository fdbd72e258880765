"""llmbx runs LLM pre-training benchmarks and says whether the number is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hookspecs import hookimpl

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    """`hookimpl`, which plugins need and the command's first tenth of a second does not."""
    if name != "hookimpl":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .hookspecs import hookimpl

    return hookimpl
