"""The environments of an install: their folders, and the markers of complete ones.

`venvs/<name>-py311` is a link to `venvs/<name>-py311.<lock>`, the folder built from one lock. The
link is replaced after a build from another lock is complete, so an environment never mixes two
locks, and running jobs keep the older one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from llmbx.api import (
    Environment,
    Image,
    InfraError,
    Value,
)

from ..lock_file import Pin, lock_digest, versions_of
from ..records import read_record, write_record
from .interpreters import preference

MARKER = ".llmbx-environment.json"
"""Written last, when an environment is complete."""


class Marker(Value, frozen=True):
    """What a complete environment has: its lock, interpreter and packages (version by name).

    `digest` is that of the packages, and of the files that the lock accepts, if it has any.
    """

    name: str
    lock: str
    python: str
    packages: dict[str, str]
    digest: str
    builds: tuple[str, ...] = ()
    schema_version: int = 1


class EnvironmentPaths(Value, frozen=True):
    """The paths of one environment for one interpreter in one install."""

    venvs: str
    label: str
    lock: str
    minor: str

    @property
    def link(self) -> Path:
        """The link with the short name."""
        return Path(self.venvs) / self.label

    @property
    def folder(self) -> Path:
        """The folder of the environment."""
        return Path(self.venvs) / f"{self.label}.{self.lock[:12]}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        """Its site-packages folder."""
        return self.folder / "lib" / f"python{self.minor}" / "site-packages"

    @property
    def lock_file(self) -> Path:
        """The lock file that a build holds."""
        return Path(self.venvs) / f".{self.label}.lock"

    @property
    def log(self) -> Path:
        """The log of uv."""
        return Path(self.venvs) / f"{self.label}.log"


class Complete(Value, frozen=True):
    """A complete environment."""

    paths: EnvironmentPaths
    marker: Marker


def environment_paths(environment: Environment, install: Path, minor: str) -> EnvironmentPaths:
    """The paths of `environment` in `install` for the interpreter version `minor` ("3.11")."""
    return EnvironmentPaths(
        venvs=str(install / "venvs"),
        label=f"{environment.name}-py{minor.replace('.', '')}",
        lock=lock_digest(environment),
        minor=minor,
    )


def complete(environment: Environment, install: Path, minor: str) -> Complete | None:
    """The environment, if it and its base are complete for the interpreter `minor`."""
    paths = environment_paths(environment, install, minor)
    marker = read_record(paths.folder / MARKER, Marker)
    if marker is None or marker.lock != paths.lock or not paths.python.exists():
        return None
    if environment.base and complete(environment.base, install, minor) is None:
        return None
    return Complete(paths=paths, marker=marker)


def find_complete(environment: Environment, install: Path) -> Complete | None:
    """A complete build of exactly this lock, preferably for the running interpreter's version."""
    builds = (complete(environment, install, minor) for minor in preference(environment.pythons))
    return next((build for build in builds if build), None)


def image(environment: Environment, paths: EnvironmentPaths, marker: Marker | None) -> Image:
    """The environment as an `Image`; without digest and versions if it is not built yet."""
    planned = Image(
        kind="venv",
        reference=environment.name,
        python=str(paths.python),
        path=str(paths.link),
    )
    if marker is None:
        return planned
    main = [Pin.normal_name(name) for name in environment.main]
    names = main or list(versions_of(environment))
    versions = {name: marker.packages[name] for name in names if name in marker.packages}
    return planned.replace(digest=marker.digest, versions={"python": marker.python, **versions})


def installed_packages(site: Path) -> dict[str, str]:
    """Version by normalized name of all packages installed in `site`, sorted."""
    import importlib.metadata

    packages = importlib.metadata.distributions(path=[str(site)])
    return dict(sorted((Pin.normal_name(p.metadata["Name"]), p.version) for p in packages))


def accepted_files(environment: Environment) -> dict[str, str]:
    """The digest by name of every file that the locks of the environment and its base accept."""
    inherited = accepted_files(environment.base) if environment.base else {}
    return {**inherited, **environment.files}


def packages_digest(packages: dict[str, str], files: Mapping[str, str]) -> str:
    """sha256 of the sorted lines `name==version`, each with the digests of its `files`."""
    digests: dict[tuple[str, str], set[str]] = {}
    for file, digest in files.items():
        digests.setdefault(Pin.in_file(file), set()).add(digest)
    hashed = hashlib.sha256()
    for name, version in sorted(packages.items()):
        line = [f"{name}=={version}", *sorted(digests.get((name, version), ()))]
        hashed.update(f"{' '.join(line)}\n".encode())
    return f"sha256:{hashed.hexdigest()}"


def finish(paths: EnvironmentPaths, marker: Marker) -> None:
    """Write the marker and set the link. Older builds are deleted, except the previous one."""
    write_record(paths.folder / MARKER, marker)
    previous = paths.link.resolve() if paths.link.is_symlink() else None
    set_link(paths)
    for folder in Path(paths.venvs).glob(f"{paths.label}.*"):
        if folder.is_dir() and folder not in (paths.folder, previous):
            shutil.rmtree(folder, ignore_errors=True)


def set_link(paths: EnvironmentPaths) -> None:
    """Set the link to this lock's folder. Raises `InfraError` if something else has its name."""
    link = paths.link
    if link.exists() and not link.is_symlink():
        advice = "move it away and retry"
        raise InfraError(f"{link} exists but is not a link created by llmbx: {advice}")
    if link.is_symlink() and link.readlink() == Path(paths.folder.name):
        return
    temporary = link.with_name(f".{paths.label}.{os.getpid()}.link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(paths.folder.name)
    temporary.replace(link)


def drop_broken_packages(site: Path) -> None:
    """Remove the metadata of partially installed packages, so that uv installs them again."""
    for folder in site.glob("*.dist-info"):
        if not (folder / "INSTALLER").is_file() or not (folder / "RECORD").is_file():
            shutil.rmtree(folder, ignore_errors=True)
