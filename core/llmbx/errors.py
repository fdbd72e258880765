"""Errors reported to the user in one line, each with its exit code."""

from __future__ import annotations

import importlib
from typing import Any


class LlmbxError(Exception):
    """Base class of the errors that end a command with a one-line message and `exit_code`."""

    exit_code = 1


class UsageError(LlmbxError):
    """Invalid usage or configuration (exit code 2). The message says what is wrong, where, and what would be right."""

    exit_code = 2


class InfraError(LlmbxError):
    """The infrastructure failed: scheduler, registry, container tool or disk (exit code 4)."""

    exit_code = 4


class Unreachable(InfraError):
    """The scheduler does not answer: the job's status is unknown for now, and a later call may succeed."""


class PluginError(LlmbxError):
    """A plugin is faulty (exit code 2). The message names the plugin, the hook or method, and the fault."""

    exit_code = 2


class ImpossibleValueError(PluginError):
    """A plugin answered with a number that cannot be true."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, named in the message: everything that Ctrl-C ends, ends."""


def one_line(error: BaseException) -> str:
    """The first line of an `LlmbxError`; for other errors, prefixed with the type, as their message may be empty."""
    first = next(iter(str(error).splitlines()), "")
    if isinstance(error, LlmbxError) and first:
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def imported(name: str) -> Any:
    """The package, or a module of one. Raises `UsageError` with the extra that installs the package."""
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise UsageError(f"{package} is not installed: pip install 'llmbx[{package}]'") from None
