"""Hooks of acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from llmbx.api import Launch, RunSpec, Settings, hookimpl

if TYPE_CHECKING:
    from llmbx.api.verbs import Install


@hookimpl
def register_settings() -> type[Settings]:
    """Register the settings of acceptance."""
    from .settings import AcceptSettings

    return AcceptSettings


@hookimpl
def suspect_nodes(spec: RunSpec, install: Install, occasion: str) -> Mapping[str, str]:
    """Leave out the nodes that the runs of the install make suspect."""
    from .memory.suspects import suspects

    return suspects(spec, install, occasion)


@hookimpl
def register_companions(spec: RunSpec, launch: Launch) -> Sequence[Launch.Companion]:
    """Check each node before the ranks start, if the launcher's settings ask for it."""
    if not spec.plugin_settings.get(spec.launcher, {}).get("preflight"):
        return []
    from .facts.before_run import node_check

    return [node_check(spec, launch)]
