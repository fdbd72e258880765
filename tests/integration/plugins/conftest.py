"""Fixtures: third-party packages and the llmbx command, see `tests/core/plugins/conftest.py`."""

from ...core.plugins.conftest import Llmbx, Package, llmbx, loaded, package, site

__all__ = ["Llmbx", "Package", "llmbx", "loaded", "package", "site"]
