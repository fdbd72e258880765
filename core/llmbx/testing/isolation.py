"""An isolated install for a test, and an environment without the user's settings of llmbx."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from ..model.settings import fields
from ..plugins.local_sources import VARIABLE
from ..plugins.manager import load

CHANGES = (
    "LLMB", "GPU_TYPE", "DTYPE", "MODEL_SIZE", "JOB_", "GPUS_PER_NODE", "ENABLE_", "RUN_CONF_PROFILE", "PROFILE_START",
    "PROFILE_STOP", "LOAD_CHECKPOINT", "HF_", "XDG_", "STAGE_PATH",
)  # fmt: skip
"""Prefixes of variables that change what llmbx does, or where it reads and writes."""


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
        """Return the variables to set. No GPU is visible, so that runs are the same on machines with GPUs."""
        return {
            "HOME": str(self.home),
            "LLMB_INSTALL": str(self.path),
            "LLMBX_CONFIG": str(self.config),
            "CUDA_VISIBLE_DEVICES": "",
        }

    def environ(self, base: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command: `base` without variables of llmbx, then `variables()` and `extra`."""
        return {**without_changes(base), **self.variables(), **(extra or {})}


def without_changes(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without the variables that change what llmbx or a plugin does."""
    kinds = load().settings.values()
    declared = {name for kind in kinds for field in fields(kind) for name in field.option.variables}
    prefixes = (*CHANGES, *(prefix for kind in kinds for prefix in kind.variable_prefixes))
    kept = {VARIABLE: environ[VARIABLE]} if VARIABLE in environ else {}  # the plugin that is tested
    rest = {name: value for name, value in environ.items() if not name.startswith(prefixes) and name not in declared}
    return rest | kept
