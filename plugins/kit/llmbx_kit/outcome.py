"""The outcome of a check of a plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from llmbx.api import LlmbxError, Value

Status = Literal["ok", "failed", "not applicable", "not checked"]

Found = tuple[Status, list[str]]
"""Status and details of one check, or of one part of it."""


class Outcome(Value, frozen=True):
    """The outcome of one check of a plugin."""

    check: str
    """Name of the check, one of `CHECKS`."""
    status: Status
    """`not checked`: a part of the check, or all of it, cannot be done on this machine."""
    details: tuple[str, ...] = ()
    """The problems; what was found; or what was not checked, and why."""


def judged(problems: Sequence[str], passed: str) -> Found:
    """Failed with the problems, or ok if there are none."""
    return ("failed", [*problems]) if problems else ("ok", [passed])


def together(parts: Sequence[Found]) -> Found:
    """Join the parts of a check: failed if one failed, else not checked if one was not, else ok."""
    problems = [text for status, texts in parts if status == "failed" for text in texts]
    if problems:
        return "failed", problems
    mark = "not checked: " if len(parts) > 1 else ""
    details = [
        f"{mark}{text}" if status == "not checked" else text
        for status, texts in parts
        for text in texts
    ]
    passed = parts and all(status == "ok" for status, _ in parts)
    return "ok" if passed else "not checked", details


def described(error: BaseException) -> str:
    """An exception of a plugin in one line."""
    return str(error) if isinstance(error, LlmbxError) else f"{type(error).__name__}: {error}"
