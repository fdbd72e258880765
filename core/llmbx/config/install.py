"""The installation folder (`LLMB_INSTALL`), with the same layout as in the published recipes."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ..errors import UsageError
from ..files import in_the_way
from ..model import Value


class Install(Value, frozen=True):
    """The top folder of all artifacts and the origin of its path.

    `workload_root` is the folder of the runs if it is not in the install: from `workload_origin`.
    """

    root: str
    origin: str
    workload_root: str | None = None
    workload_origin: str = "LLMB_WORKLOAD"

    @staticmethod
    def find(path: str | os.PathLike[str] | None = None) -> Install:
        """The install at `path`, by default the one that the command uses. Nothing is created."""
        from .profiles import load_config

        if path is not None:
            return Install(root=absolute(os.fspath(path), "install"), origin="install")
        config, _ = load_config()
        return find_install(os.environ, config.install, config.install_file)

    @property
    def path(self) -> Path:
        """The top folder."""
        return Path(self.root)

    @property
    def images(self) -> Path:
        """The folder of container images."""
        return self.path / "images"

    @property
    def venvs(self) -> Path:
        """The folder of environments built by llmbx."""
        return self.path / "venvs"

    def experiments(self, folder: str) -> Path:
        """The folder of a workload's runs. `folder` is the workload's folder name from the catalog."""
        base = Path(self.workload_root) if self.workload_root else self.path / "workloads" / folder
        return base / "experiments"

    def all_experiments(self) -> list[Path]:
        """The folders of the runs of all workloads, some of which may not exist."""
        workloads = self.path / "workloads"
        try:
            folders = [folder / "experiments" for folder in sorted(workloads.iterdir())]
        except OSError:
            folders = []
        if self.workload_root and Path(self.workload_root).parent != workloads:
            folders.append(Path(self.workload_root) / "experiments")
        return folders

    def ensure(self) -> None:
        """Create the top folders. Raises `UsageError` if they cannot be created or written to.

        If runs are stored elsewhere (`workload_root`), an existing install may be read-only.
        """
        if not (self.workload_root and self.path.is_dir()):
            _ensure(self.path, self.origin, "LLMB_INSTALL")
        if self.workload_root:
            _ensure(Path(self.workload_root), self.workload_origin, self.workload_origin)

    def share(self) -> None:
        """Let the group of a shared install write what this process creates in it, except for the files of runs.

        An install is shared if the folder of the runs is writable for its group: only then is the umask changed, which
        would deny it. New folders have the group of the install if its top folder has the setgid bit.
        """
        try:
            mode = Path(self.workload_root or self.root).stat().st_mode
        except OSError:
            return
        if mode & stat.S_IWGRP:
            os.umask(os.umask(0o077) & ~stat.S_IRWXG)


def _ensure(folder: Path, origin: str, variable: str) -> None:
    place = f"{folder} ({origin})"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        file = in_the_way(folder)
        why = f"{file} is a file" if file else error.strerror
        raise UsageError(f"cannot create {place}: {why}; set {variable} to a writable folder") from None
    probe = folder / f".llmbx-write-{os.getpid()}"
    try:
        probe.touch()
        probe.unlink(missing_ok=True)  # several threads may do this at once
    except OSError as error:
        elsewhere = " (runs can be stored elsewhere with --output)" if variable == "LLMB_INSTALL" else ""
        raise UsageError(
            f"cannot write to {place}: {error.strerror}; set {variable} to a writable folder{elsewhere}"
        ) from None


def find_install(environ: Mapping[str, str], configured: str | None = None, file: str = "") -> Install:
    """Find the install: `LLMB_INSTALL`, else the key `install` of the configuration file, else the XDG data folder.

    A relative path in a file is relative to the file's folder. Nothing is created. Raises `UsageError` for an invalid
    path.
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
    """Make the path `text` absolute: jobs run in other folders, and records store paths.

    Raises `UsageError`, which names `origin`, for an unknown user in `~user`, a deleted current folder, and a path that
    is not valid UTF-8 and so cannot be stored in a record.
    """
    try:
        path = str(Path(text).expanduser().absolute())
        path.encode()
    except RuntimeError as error:
        raise UsageError(f"{origin} {text!r}: {error}") from None
    except FileNotFoundError:
        raise UsageError(
            f"{origin} {text!r}: the current folder does not exist any more; use an absolute path"
        ) from None
    except UnicodeEncodeError:
        raise UsageError(f"{origin} {text!r}: the path must be UTF-8; rename the folder or link to it") from None
    return path
