"""The machinery around plugins, for one that examines others, as `llmbx plugins check` does.

The version and its policy are those of `llmbx.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from ..catalog.validation import check_workload
    from ..cli.preview import preview as preview_text
    from ..config.plugin_settings import join as join_settings
    from ..config.profiles import choose_profile as cluster_profile
    from ..measure.figures import measure as measure_steps
    from ..model import Figures, TraceSpec
    from ..model.settings import fields as setting_fields
    from ..plugins.discovery import HOOKS, PluginInfo
    from ..plugins.entry_points import entry_points
    from ..plugins.framework import Framework
    from ..plugins.guards import make_parser
    from ..plugins.local_sources import find as find_entry_points
    from ..run.collect import collect as collect_log
    from ..run.launch import Rendered as RenderedRun

PLACES = {
    "catalog.validation": "check_workload",
    "cli.preview": "preview_text:preview",
    "config.plugin_settings": "join_settings:join",
    "config.profiles": "cluster_profile:choose_profile",
    "measure.figures": "measure_steps:measure",
    "model": "Figures TraceSpec",
    "model.settings": "setting_fields:fields",
    "plugins.discovery": "HOOKS PluginInfo",
    "plugins.entry_points": "entry_points",
    "plugins.guards": "make_parser",
    "plugins.local_sources": "find_entry_points:find",
    "plugins.framework": "Framework",
    "run.collect": "collect_log:collect",
    "run.launch": "RenderedRun:Rendered",
}
"""The names by their module in llmbx, as `name:name_there` if they differ. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES)
