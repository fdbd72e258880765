"""The outcome of a check of a plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..model import Value

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


def together(parts: Sequence[Found]) -> Found:
    """Join the parts of a check: failed if a part failed, else not checked if a part was not, else ok."""
    problems = [text for status, texts in parts if status == "failed" for text in texts]
    if problems:
        return "failed", problems
    texts = [f"not checked: {text}" if status == "not checked" and len(parts) > 1 else text
             for status, texts in parts for text in texts]  # fmt: skip
    done = all(status == "ok" for status, _ in parts)
    return "ok" if done and parts else "not checked", texts
