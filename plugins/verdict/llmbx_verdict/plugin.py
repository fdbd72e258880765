"""The hooks of the verdict."""

from __future__ import annotations

from llmbx.api import Judge, Settings, hookimpl

LLMBX_API = (3, 0)


@hookimpl
def register_settings() -> type[Settings]:
    """Register the setting of the verdict."""
    from .settings import VerdictSettings

    return VerdictSettings


@hookimpl
def register_judge() -> Judge:
    """The judge that decides by checks and intervals."""
    from .judge import IntervalJudge

    return IntervalJudge()
