"""llmbx runs LLM pre-training benchmarks and says whether the number is right."""

from .hookspecs import hookimpl

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl"]
