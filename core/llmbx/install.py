"""Where llmbx keeps what it makes: `LLMB_INSTALL` and the folders in it, laid out as the recipes lay them out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .errors import UsageError
from .model import Value

RECORD = "run.json"


class Install(Value, frozen=True):
    """The top folder of all artefacts, and where its place came from. `workload_root` is `LLMB_WORKLOAD` when set."""

    root: str
    origin: str
    workload_root: str | None = None

    @property
    def path(self) -> Path:
        """The folder itself."""
        return Path(self.root)

    @property
    def images(self) -> Path:
        """Container images."""
        return self.path / "images"

    @property
    def venvs(self) -> Path:
        """Environments that llmbx built."""
        return self.path / "venvs"

    def experiments(self, folder: str) -> Path:
        """Where the runs of a workload lie (`folder` as in the catalog)."""
        base = Path(self.workload_root) if self.workload_root else self.path / "workloads" / folder
        return base / "experiments"

    def ensure(self) -> None:
        """Make the top folder and prove that it can be written. Raises `UsageError` with what to do."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot make {self._place()}: {error.strerror}; set LLMB_INSTALL to a folder you own"
            ) from None
        probe = self.path / f".llmbx-write-{os.getpid()}"
        try:
            probe.touch()
            probe.unlink(missing_ok=True)  # several threads may prove it at once
        except OSError as error:
            raise UsageError(
                f"cannot write to {self._place()}: {error.strerror}; set LLMB_INSTALL to a folder you can write to"
            ) from None

    def _place(self) -> str:
        return f"{self.root} ({self.origin})"


def find_install(environ: Mapping[str, str], configured: str | None = None, file: str = "") -> Install:
    """The install that `LLMB_INSTALL`, the key `install` of this configuration file, or the XDG data folder names.

    A relative path in a file is meant from the file's folder. Touches nothing.
    """
    if environ.get("LLMB_INSTALL"):
        root, origin = Path(environ["LLMB_INSTALL"]).expanduser(), "LLMB_INSTALL"
    elif configured:
        root, origin = Path(file).parent / Path(configured).expanduser(), f"install in {file}"
    else:
        root, origin = Path(environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "llmbx", "default"
    return Install(root=str(root.absolute()), origin=origin, workload_root=environ.get("LLMB_WORKLOAD") or None)
