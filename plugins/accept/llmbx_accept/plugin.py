"""Hooks of acceptance."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Launch, RunSpec, hookimpl


@hookimpl
def register_companions(spec: RunSpec, launch: Launch) -> Sequence[Launch.Companion]:
    """Check each node before the ranks start, if the launcher's settings ask for it."""
    if not spec.plugin_settings.get(spec.launcher, {}).get("preflight"):
        return []
    from .facts.before_run import node_check

    return [node_check(spec, launch)]
