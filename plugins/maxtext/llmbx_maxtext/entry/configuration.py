"""MaxText's final configuration: rank 0 writes it to `configs/final.json` when MaxText has finished it."""

from __future__ import annotations

import enum
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmbx.entry import final, rank, seen

PACKAGES = ("maxtext", "jax", "jaxlib", "flax", "optax")
"""Packages whose versions are written with the configuration."""


def module_of(program: dict[str, Any]) -> str:
    """Return the name of MaxText's module for the configuration; that of a source tree is next to its program."""
    return f"{program['module'].split('.')[0]}.configs.pyconfig" if program["module"] else "pyconfig"


def record(program: dict[str, Any], folder: Path) -> None:
    """Write the configuration whenever MaxText finishes one. A file that an earlier phase wrote is removed."""
    (folder / final.FILE).unlink(missing_ok=True)
    try:
        module = importlib.import_module(module_of(program))
    except ImportError as error:
        rank.say(f"the final configuration will not be written: {error}")
        return
    module.initialize = recording(module, module.initialize, folder)  # type: ignore[attr-defined]


def recording(module: Any, initialize: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """Return MaxText's function `initialize` with the recording. A configuration that cannot be written is a message:
    the run trains without it.
    """

    def recorded(*args: Any, **kwargs: Any) -> Any:
        made = initialize(*args, **kwargs)
        # releases before 2025 return nothing: the configuration is an attribute of the module
        try:
            write(module.config if made is None else made, folder)
        except Exception as error:
            rank.say(f"the final configuration was not written: {type(error).__name__}: {error}")
        return made

    return recorded


def write(configuration: Any, folder: Path) -> None:
    """Write every key of a configuration."""
    final.write_flat(values_of(configuration), seen.versions(PACKAGES), folder)


def values_of(configuration: Any) -> dict[str, Any]:
    """Return every key of a configuration. Members of enumerations are what an argument would be."""
    values: dict[str, Any] = {}
    for name, value in sorted(dict(configuration.get_keys()).items()):
        final.spread(str(name), value.value if isinstance(value, enum.Enum) else value, values, ())
    return values
