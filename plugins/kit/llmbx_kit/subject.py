"""What is checked."""

from __future__ import annotations

from llmbx.api import UsageError, did_you_mean
from llmbx.api.contract import PluginInfo
from llmbx.api.verbs import Plugins, load_plugins


class Subject:
    """The plugin that is checked, a log of its framework, and an image for its runtimes.

    Raises `UsageError` for the name of no plugin.
    """

    def __init__(self, name: str, log: str | None = None, image: str | None = None) -> None:
        self.name, self.log, self.image = name, log, image
        self.plugins: Plugins = load_plugins()
        self.plugins.ask_all()  # a plugin that fails there is disabled, and its error noted
        by_name = {info.name: info for info in reversed(self.plugins.infos)}
        if name not in by_name:
            raise UsageError(f"no plugin named '{name}'{did_you_mean(name, by_name)}")
        self.info: PluginInfo = by_name[name]
