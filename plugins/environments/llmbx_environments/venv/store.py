"""Paths of environments in an install, and the marker file of a complete environment.

`venvs/<name>-py311` is a link to `venvs/<name>-py311.<lock>`, the folder built from one lock. The link is replaced
after a build from another lock is complete, so an environment never mixes two locks, and running jobs keep the older
one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from llmbx.api import (
    NOT_JSON,
    Environment,
    Image,
    InfraError,
    Value,
    decode,
    normal_package_name,
    pinned_versions,
    split_file,
    write_atomic,
)

MARKER = ".llmbx-environment.json"
"""Written last, when an environment is complete."""


class Marker(Value, frozen=True):
    """Contents of a complete environment: its lock, interpreter, packages (version by name), and their digest.

    `digest` includes the digests of the files that the lock accepts, if it has any.
    """

    name: str
    lock: str
    python: str
    packages: dict[str, str]
    digest: str
    builds: tuple[str, ...] = ()
    schema_version: int = 1


class EnvironmentPaths(Value, frozen=True):
    """The paths of one environment for one interpreter ("3.11") in one install."""

    venvs: str
    label: str
    lock: str

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
    def lock_file(self) -> Path:
        """The lock file that a build holds."""
        return Path(self.venvs) / f".{self.label}.lock"

    @property
    def log(self) -> Path:
        """The log of uv."""
        return Path(self.venvs) / f"{self.label}.log"

    @property
    def site(self) -> Path:
        """The site-packages folder."""
        return (
            self.folder
            / "lib"
            / f"python{self.label.rpartition('-py')[2].replace('3', '3.', 1)}"
            / "site-packages"
        )


def environment_paths(environment: Environment, install: Path, minor: str) -> EnvironmentPaths:
    """The paths of `environment` in `install` for the interpreter version `minor` ("3.11")."""
    label = f"{environment.name}-py{minor.replace('.', '')}"
    return EnvironmentPaths(
        venvs=str(install / "venvs"), label=label, lock=environment.lock_digest()
    )


def read_marker(paths: EnvironmentPaths) -> Marker | None:
    """The marker of a complete environment; None if it is missing, is for another lock, or has lost its interpreter."""
    try:
        marker = decode((paths.folder / MARKER).read_bytes(), Marker)
    except (OSError, *NOT_JSON):
        return None
    return marker if marker.lock == paths.lock and paths.python.exists() else None


def complete(
    environment: Environment, install: Path, minor: str
) -> tuple[EnvironmentPaths, Marker] | None:
    """The paths and the marker of an environment that is complete for the interpreter `minor`, with its base."""
    paths = environment_paths(environment, install, minor)
    marker = read_marker(paths)
    if marker is None or (environment.base and complete(environment.base, install, minor) is None):
        return None
    return paths, marker


def image(paths: EnvironmentPaths, environment: Environment, marker: Marker | None) -> Image:
    """The environment as an `Image`; without digest and versions if it is not built yet (`marker` is None)."""
    if marker is None:
        return Image(
            kind="venv", reference=environment.name, python=str(paths.python), path=str(paths.link)
        )
    names = [normal_package_name(name) for name in environment.main] or list(
        pinned_versions(environment)
    )
    main = {name: marker.packages[name] for name in names if name in marker.packages}
    return Image(
        kind="venv",
        reference=environment.name,
        python=str(paths.python),
        path=str(paths.link),
        digest=marker.digest,
        versions={"python": marker.python, **main},
    )


def installed_packages(site: Path) -> dict[str, str]:
    """Version by normalized name of all packages installed in `site`, sorted."""
    import importlib.metadata

    found = importlib.metadata.distributions(path=[str(site)])
    return dict(sorted((normal_package_name(d.metadata["Name"]), d.version) for d in found))


def accepted_files(environment: Environment) -> dict[str, str]:
    """The digest by name of every file that the locks of the environment and of its base accept."""
    return {**(accepted_files(environment.base) if environment.base else {}), **environment.files}


def packages_digest(packages: dict[str, str], files: Mapping[str, str]) -> str:
    """sha256 of the sorted lines `name==version`, as listed by `pip freeze`, each with the digests of its `files`."""
    accepted: dict[tuple[str, str], set[str]] = {}
    for file, digest in files.items():
        accepted.setdefault(split_file(file), set()).add(digest)
    lines = "".join(
        " ".join([f"{name}=={version}", *sorted(accepted.get((name, version), ()))]) + "\n"
        for name, version in sorted(packages.items())
    )
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def finish(paths: EnvironmentPaths, marker: Marker) -> None:
    """Write the marker and set the link. Older builds are deleted, except the previous one."""
    write_atomic(
        paths.folder / MARKER, msgspec.json.format(msgspec.json.encode(marker), indent=2) + b"\n"
    )
    before = paths.link.resolve() if paths.link.is_symlink() else None
    set_link(paths)
    for folder in paths.link.parent.glob(f"{paths.label}.*"):
        if folder.is_dir() and folder not in (paths.folder, before):
            shutil.rmtree(folder, ignore_errors=True)


def set_link(paths: EnvironmentPaths) -> None:
    """Set the link to this lock's folder. Raises `InfraError` if a file or folder with that name exists."""
    if paths.link.exists() and not paths.link.is_symlink():
        raise InfraError(
            f"{paths.link} exists but is not a link created by llmbx: move it away and retry"
        )
    if paths.link.is_symlink() and paths.link.readlink() == Path(paths.folder.name):
        return
    fresh = paths.link.with_name(f".{paths.label}.{os.getpid()}.link")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(paths.folder.name)
    fresh.replace(paths.link)


def drop_broken_packages(site: Path) -> None:
    """Remove the metadata of partially installed packages, so that uv installs them again."""
    for folder in site.glob("*.dist-info"):
        if not (folder / "INSTALLER").is_file() or not (folder / "RECORD").is_file():
            shutil.rmtree(folder, ignore_errors=True)
