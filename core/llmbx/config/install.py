"""Where llmbx keeps what it makes: `LLMB_INSTALL` and the folders in it, laid out as the recipes lay them out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..errors import UsageError
from ..files import in_the_way
from ..model import Value

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
        """Make the top folders and prove that they can be written. Raises `UsageError` with what to do."""
        _ensure(self.path, self.origin, "LLMB_INSTALL")
        if self.workload_root:
            _ensure(Path(self.workload_root), "LLMB_WORKLOAD", "LLMB_WORKLOAD")


def _ensure(folder: Path, origin: str, variable: str) -> None:
    place = f"{folder} ({origin})"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        file = in_the_way(folder)
        why = f"{file} is a file" if file else error.strerror
        raise UsageError(f"cannot make {place}: {why}; set {variable} to a folder you own") from None
    probe = folder / f".llmbx-write-{os.getpid()}"
    try:
        probe.touch()
        probe.unlink(missing_ok=True)  # several threads may prove it at once
    except OSError as error:
        raise UsageError(
            f"cannot write to {place}: {error.strerror}; set {variable} to a folder you can write to"
        ) from None


def find_install(environ: Mapping[str, str], configured: str | None = None, file: str = "") -> Install:
    """The install that `LLMB_INSTALL`, the key `install` of this configuration file, or the XDG data folder names.

    A relative path in a file is meant from the file's folder. Touches nothing. Raises `UsageError` for a folder that
    cannot be meant.
    """
    named = environ.get("LLMB_WORKLOAD")
    workload = absolute(named, "LLMB_WORKLOAD") if named else None
    if environ.get("LLMB_INSTALL"):
        root, origin = absolute(environ["LLMB_INSTALL"], "LLMB_INSTALL"), "LLMB_INSTALL"
    elif configured:
        origin = f"install in {file}"
        root = absolute(configured if configured.startswith("~") else str(Path(file).parent / configured), origin)
    else:
        data, origin = environ.get("XDG_DATA_HOME") or "~/.local/share", "default"
        root = absolute(f"{data}/llmbx", "XDG_DATA_HOME" if environ.get("XDG_DATA_HOME") else "HOME")
    return Install(root=root, origin=origin, workload_root=workload)


def absolute(text: str, origin: str) -> str:
    """The folder `text` as an absolute path: jobs run in folders of their own, and records outlive this one.

    Raises `UsageError` naming `origin` for a user that is not there, a current folder that is gone, and a name that is
    no text, which no record could hold.
    """
    try:
        path = str(Path(text).expanduser().absolute())
        path.encode()
    except RuntimeError as error:
        raise UsageError(f"{origin} {text!r}: {error}") from None
    except FileNotFoundError:
        raise UsageError(f"{origin} {text!r}: the current folder is gone; give an absolute path") from None
    except UnicodeEncodeError:
        raise UsageError(f"{origin} {text!r}: a folder's name has to be UTF-8; rename or link it") from None
    return path
