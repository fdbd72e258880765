"""Leave out nodes that plugins suspect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import RunSpec

if TYPE_CHECKING:
    from ..config.install import Install
    from ..plugins.manager import Plugins


def without_suspects(spec: RunSpec, plugins: Plugins, install: Install, occasion: str) -> tuple[RunSpec, list[str]]:
    """Return the specification without the suspected nodes, and a line for the user about each.

    Nothing is left out if the user named the nodes.
    """
    launcher, lines = plugins.launcher(spec.launcher), []
    for node, reason in plugins.suspect_nodes(spec, install, occasion).items():
        fewer = launcher.without_node(spec, node)
        if fewer is None:
            break
        spec = fewer
        lines.append(f"without {node}: {reason}")
    return spec, lines
