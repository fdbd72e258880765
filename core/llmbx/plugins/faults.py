"""Describe the exceptions of a plugin's code in one line."""

from __future__ import annotations

import os
import sys

from ..errors import PluginError, one_line

PLUGIN_EXCEPTIONS = (Exception, SystemExit)
"""Exceptions of a plugin's code that must not end llmbx. KeyboardInterrupt comes from the user and is not caught."""


def debugging() -> bool:
    """Whether the user wants tracebacks (LLMBX_DEBUG=1)."""
    return os.environ.get("LLMBX_DEBUG", "") not in ("", "0")


def describe_error(error: BaseException) -> str:
    """Describe an exception in one line; with LLMBX_DEBUG=1, print its traceback first."""
    if debugging():
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return one_line(error)


def failure(what: str, error: BaseException) -> PluginError:
    """Return the `PluginError` for `error`; `what` names the plugin and the call that failed."""
    hint = "" if debugging() else " (LLMBX_DEBUG=1 shows the traceback)"
    return PluginError(f"{what}: {describe_error(error)}{hint}")
