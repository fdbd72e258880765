"""An isolated install for a test, and an environment without the user's settings of llmbx."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from llmbx.api.contract import setting_fields
from llmbx.api.verbs import load_plugins

CHANGES = (
    *("LLMB", "GPU_TYPE", "DTYPE", "MODEL_SIZE", "JOB_", "GPUS_PER_NODE", "STAGE_PATH"),
    *("ENABLE_", "RUN_CONF_PROFILE", "PROFILE_START", "PROFILE_STOP", "LOAD_CHECKPOINT"),
    *("HF_", "XDG_"),
)
"""Prefixes of variables that change what llmbx does, or where it reads and writes."""

KEPT = "LLMBX_PLUGINS"
"""The paths of plugins that are not installed: that of the plugin that is tested."""


@dataclasses.dataclass(frozen=True)
class Isolated:
    """Folders of one test: an install, a home, and an initially empty configuration file."""

    root: Path
    """The folder that has all of them."""

    @property
    def path(self) -> Path:
        """LLMB_INSTALL: the folder of runs, images and environments."""
        return self.root / "install"

    @property
    def home(self) -> Path:
        """HOME: without the user's configuration and cache."""
        return self.root / "home"

    @property
    def config(self) -> Path:
        """The only `llmbx.toml` that is read."""
        return self.root / "llmbx.toml"

    def make(self) -> Isolated:
        """Create the folders and the empty configuration, and return self."""
        self.home.mkdir(parents=True)
        self.config.touch()
        return self

    def variables(self) -> dict[str, str]:
        """Return the variables to set. No GPU is visible, so that runs are the same everywhere."""
        return {
            "HOME": str(self.home),
            "LLMB_INSTALL": str(self.path),
            "LLMBX_CONFIG": str(self.config),
            "CUDA_VISIBLE_DEVICES": "",
        }

    def environ(
        self, base: Mapping[str, str], extra: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the environment of a command: `base` without variables of llmbx, then
        `variables()` and `extra`.
        """
        return {**without_changes(base), **self.variables(), **(extra or {})}


def without_changes(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without the variables that change what llmbx or a plugin does."""
    prefixes, names = [*CHANGES], set[str]()
    for kind in load_plugins().settings.values():
        prefixes += kind.variable_prefixes
        for field in setting_fields(kind):
            names.update(field.option.variables)
    return {
        name: value
        for name, value in environ.items()
        if name == KEPT or not (name in names or name.startswith(tuple(prefixes)))
    }
