"""Lazy public modules: names are imported on first use, and the list of names is written once, for type checkers."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST, without importing ast


def lazy(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a module whose first `if` block imports its public names.

    `file` is its source: pytest's loader, which loads a plugin of a test suite, cannot be asked for it.
    """
    places: dict[str, tuple[str, str]] = {}

    def read() -> dict[str, tuple[str, str]]:
        """Public name -> (module, name there)."""
        if not places:
            tree = compile(Path(file).read_bytes(), module, "exec", _ONLY_AST)
            block = next(part.body for part in tree.body if type(part).__name__ == "If")
            places.update(
                {alias.asname: (f".{node.module or ''}", alias.name) for node in block for alias in node.names}
            )
        return places

    def getattr_(name: str) -> Any:
        place = read().get(name)
        if place is None:
            raise AttributeError(f"{module} has no name {name!r}")
        package, original = place
        found = getattr(importlib.import_module(package, "llmbx"), original, None)
        if found is None:
            found = importlib.import_module(f"{package}.{original}" if package != "." else f".{original}", "llmbx")
        return found

    return getattr_, lambda: sorted(read())
