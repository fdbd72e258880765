"""Import a package that llmbx does not depend on, but one of its extras does."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import UsageError


def imported(name: str) -> Any:
    """The package. Raises `UsageError` with the extra that installs it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(f"{name} is not installed: pip install 'llmbx[{name}]'") from None
