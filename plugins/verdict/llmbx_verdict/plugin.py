"""The hook of the verdict."""

from __future__ import annotations

from llmbx.api import Judge, hookimpl

LLMBX_API = (2, 0)


@hookimpl
def register_judge() -> Judge:
    """The judge that decides by checks and intervals."""
    from .judge import IntervalJudge

    return IntervalJudge()
