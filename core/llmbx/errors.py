"""Errors that a user sees as one line, each with its exit code."""

from __future__ import annotations

from collections.abc import Iterable


class LlmbxError(Exception):
    """Base of the errors that end a command with one clear line. `exit_code` is the process's."""

    exit_code = 1


class RunFailed(LlmbxError):
    """The run itself failed (exit code 1)."""


class UsageError(LlmbxError):
    """Wrong usage or configuration (exit code 2): says what is wrong, where, and what would be right."""

    exit_code = 2


class InfraError(LlmbxError):
    """The infrastructure failed: scheduler, registry, container tool, disk (exit code 4)."""

    exit_code = 4


class PluginError(LlmbxError):
    """A plugin is wrong (exit code 2): names it, the hook or method, and what it did or what was expected of it."""

    exit_code = 2


def one_line(error: BaseException) -> str:
    """The first line of an error of ours; of any other one with its type, which may be all that it says."""
    first = next(iter(str(error).splitlines()), "")
    if isinstance(error, LlmbxError) and first:
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' (did you mean X?)' for the nearest known word, or ' (known: …)' when none is near."""
    import difflib

    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f" (did you mean '{near[0]}'?)"
    return f" (known: {', '.join(names)})" if names else ""
