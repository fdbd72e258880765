"""The nodes that runs leave out."""

from __future__ import annotations

import functools

from llmbx.api import RunSpec, settings_of
from llmbx.api.verbs import Install, Selection, load_plugins

from ..settings import AcceptSettings
from .attendance import attendances
from .standing import standings

DAYS = "90d"
"""Runs from before say nothing."""

SHARE = 10
"""At most a tenth of the known nodes are left out by default: a suspicion must not take a cluster away."""


def suspects(spec: RunSpec, install: Install, occasion: str) -> dict[str, str]:
    """The suspected nodes with the reasons, the worst first, if this run is to leave them out."""
    wish = settings_of(spec, AcceptSettings).exclude_suspects
    by_default = wish is None
    if wish is False or (by_default and occasion == "run") or (spec.gpu_type == "cpu" and by_default):
        return {}
    reasons, known = _suspects(install)
    most = max(1, known // SHARE) if by_default else known
    end = "; --no-exclude-suspects uses it" if by_default else ""
    return {node: f"{reason}{end}" for node, reason in list(reasons.items())[:most]}


@functools.cache
def _suspects(install: Install) -> tuple[dict[str, str], int]:
    """All suspected nodes, those with failures of their hardware first, and the number of known nodes."""
    plugins = load_plugins()
    runs = plugins.history.select(install, Selection(since=DAYS, user="all"))
    nodes = standings(attendances(runs, plugins))
    worst = sorted(
        (node for node in nodes if node.suspect), key=lambda node: (-node.of_hardware, -(node.slower or 0.0))
    )
    return {node.node: node.reason or "suspected" for node in worst}, len(nodes)
