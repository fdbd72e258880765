"""The machinery around plugins, for one that examines others, as `llmbx plugins check` does.

The version and its policy are those of `llmbx.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from ..catalog.validation import check_workload as check_workload
    from ..cli.preview import preview as preview_text
    from ..config.plugin_settings import join as join_settings
    from ..config.profiles import choose_profile as cluster_profile
    from ..measure.figures import measure as measure_steps
    from ..model import Figures as Figures
    from ..model import TraceSpec as TraceSpec
    from ..model.settings import fields as setting_fields
    from ..plugins.discovery import HOOKS as HOOKS
    from ..plugins.discovery import PluginInfo as PluginInfo
    from ..plugins.entry_points import entry_points as entry_points
    from ..plugins.guards import make_parser as make_parser
    from ..plugins.local_sources import find as find_entry_points
    from ..plugins.manager import Framework as Framework
    from ..run.collect import collect as collect_log
    from ..run.launch import Rendered as RenderedRun

PLACES = {
    "check_workload": "catalog.validation",
    "preview_text": "cli.preview:preview",
    "join_settings": "config.plugin_settings:join",
    "cluster_profile": "config.profiles:choose_profile",
    "measure_steps": "measure.figures:measure",
    "Figures": "model",
    "TraceSpec": "model",
    "setting_fields": "model.settings:fields",
    "HOOKS": "plugins.discovery",
    "PluginInfo": "plugins.discovery",
    "entry_points": "plugins.entry_points",
    "make_parser": "plugins.guards",
    "find_entry_points": "plugins.local_sources:find",
    "Framework": "plugins.manager",
    "collect_log": "run.collect:collect",
    "RenderedRun": "run.launch:Rendered",
}
"""Name -> its module in llmbx, with its name there if that differs. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES)
