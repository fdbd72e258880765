"""An install of a test's own, and an environment in which nothing of the user's changes what llmbx does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from ..model.settings import fields
from ..plugins.manager import load

CHANGES = (
    "LLMB", "GPU_TYPE", "DTYPE", "MODEL_SIZE", "JOB_", "GPUS_PER_NODE", "ENABLE_", "RUN_CONF_PROFILE", "PROFILE_START",
    "PROFILE_STOP", "LOAD_CHECKPOINT", "HF_", "XDG_", "STAGE_PATH",
)  # fmt: skip
"""How the names of variables begin that change what llmbx does, or where it reads and writes."""


@dataclasses.dataclass(frozen=True)
class Isolated:
    """Folders of one test: the install, a home, and a configuration file that is empty until the test writes one."""

    root: Path

    @property
    def path(self) -> Path:
        """LLMB_INSTALL: where runs, images and environments lie."""
        return self.root / "install"

    @property
    def home(self) -> Path:
        """HOME: no configuration and no cache of the user's."""
        return self.root / "home"

    @property
    def config(self) -> Path:
        """The one `llmbx.toml` that is read."""
        return self.root / "llmbx.toml"

    def make(self) -> Isolated:
        """Make the folders and the empty configuration."""
        self.home.mkdir(parents=True)
        self.config.touch()
        return self

    def variables(self) -> dict[str, str]:
        """What is set. No GPU is visible, so that a test's run is the same on a machine that has some."""
        return {
            "HOME": str(self.home),
            "LLMB_INSTALL": str(self.path),
            "LLMBX_CONFIG": str(self.config),
            "CUDA_VISIBLE_DEVICES": "",
        }

    def environ(self, base: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The whole environment of a command: `base` without what changes llmbx, this place's own, and `extra`."""
        return {**without_changes(base), **self.variables(), **(extra or {})}


def without_changes(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the variables that change what llmbx or a plugin does."""
    kinds = load().settings.values()
    declared = {name for kind in kinds for field in fields(kind) for name in field.option.variables}
    prefixes = (*CHANGES, *(prefix for kind in kinds for prefix in kind.variable_prefixes))
    return {name: value for name, value in environ.items() if not name.startswith(prefixes) and name not in declared}
