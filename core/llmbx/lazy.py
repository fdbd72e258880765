"""Lazy public modules: their names are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    module: str, places: Mapping[str, str], package: str = "llmbx."
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a module with the names of `places`.

    A place is a module of `package` ("model"), with the name there if that is another ("logs.parser:Record").
    """

    def getattr_(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"{module} has no name {name!r}")
        source, _, original = place.partition(":")
        defining = importlib.import_module(f"{package}{source}".rstrip("."))
        return getattr(defining, original or name)

    return getattr_, lambda: sorted(places)
