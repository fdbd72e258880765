"""Import a package that llmbx does not depend on, but one of its extras does."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import UsageError


def imported(name: str) -> Any:
    """The package, or a module of one. Raises `UsageError` with the extra that installs the package."""
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise UsageError(f"{package} is not installed: pip install 'llmbx[{package}]'") from None
