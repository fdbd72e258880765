"""Lazy public modules: their names are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    module: str, places: Mapping[str, str], package: str = "llmbx."
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a module with the names of `places`.

    These are words by their module of `package`: a name, or `name:name_there` if the names differ.
    """
    modules = {word.partition(":")[0]: (place, word) for place, words in places.items() for word in words.split()}

    def getattr_(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"{module} has no name {name!r}")
        place, word = modules[name]
        defining = importlib.import_module(f"{package}{place}".rstrip("."))
        return getattr(defining, word.rpartition(":")[2])

    return getattr_, lambda: sorted(modules)
