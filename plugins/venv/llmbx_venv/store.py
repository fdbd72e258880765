"""Where built environments lie, and the marker that says one is whole.

`venvs/<name>-py311` is a link to `venvs/<name>-py311.<lock>`, the folder of one lock's build. The link is replaced when
another lock has been built, so an environment is never half of one and half of another, and a run that started in the
older one keeps it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import msgspec

from llmbx.catalog.environments import lock_digest, normal_name, pins
from llmbx.codec import decode
from llmbx.errors import InfraError
from llmbx.files import write_atomic
from llmbx.model import Environment, Image, Value
from llmbx.toml_file import NOT_JSON

MARKER = ".llmbx-environment.json"
"""Written last into a finished environment."""


class Marker(Value, frozen=True):
    """What a finished environment holds: its lock, its interpreter, every package, and the digest over them."""

    name: str
    lock: str
    python: str
    packages: dict[str, str]
    digest: str
    builds: tuple[str, ...] = ()
    schema_version: int = 1


class Place(Value, frozen=True):
    """The paths of one environment for one interpreter ("3.11") in one install."""

    venvs: str
    label: str
    lock: str

    @property
    def link(self) -> Path:
        """The name that people use."""
        return Path(self.venvs) / self.label

    @property
    def folder(self) -> Path:
        """The environment itself."""
        return Path(self.venvs) / f"{self.label}.{self.lock[:12]}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def lock_file(self) -> Path:
        """The lock that a building process holds."""
        return Path(self.venvs) / f".{self.label}.lock"

    @property
    def log(self) -> Path:
        """Everything pip said."""
        return Path(self.venvs) / f"{self.label}.log"

    @property
    def site(self) -> Path:
        """Where its packages lie."""
        return self.folder / "lib" / f"python{self.label.rpartition('-py')[2].replace('3', '3.', 1)}" / "site-packages"


def place(environment: Environment, install: Path, minor: str) -> Place:
    """Where `environment` lies in `install` for the interpreter version `minor` ("3.11")."""
    label = f"{environment.name}-py{minor.replace('.', '')}"
    return Place(venvs=str(install / "venvs"), label=label, lock=lock_digest(environment))


def read_marker(where: Place) -> Marker | None:
    """The marker of a finished environment of just this lock; None when there is none or its interpreter is gone."""
    try:
        marker = decode((where.folder / MARKER).read_bytes(), Marker)
    except (OSError, *NOT_JSON):
        return None
    return marker if marker.lock == where.lock and where.python.exists() else None


def image(where: Place, environment: Environment, marker: Marker | None) -> Image:
    """The environment as an `Image`; without a marker as it will be once it is built."""
    if marker is None:
        return Image(kind="venv", reference=environment.name, python=str(where.python), path=str(where.link))
    shown = [normal_name(name) for name in environment.main] or list(pins(environment))
    main = {name: marker.packages[name] for name in shown if name in marker.packages}
    return Image(
        kind="venv",
        reference=environment.name,
        python=str(where.python),
        path=str(where.link),
        digest=marker.digest,
        versions={"python": marker.python, **main},
    )


def installed_packages(site: Path) -> dict[str, str]:
    """Version by normalised name of everything that is installed in `site`, sorted."""
    import importlib.metadata

    found = importlib.metadata.distributions(path=[str(site)])
    return dict(sorted((normal_name(d.metadata["Name"]), d.version) for d in found))


def packages_digest(packages: dict[str, str]) -> str:
    """sha256 over the sorted lines `name==version`, as `pip freeze` would list them."""
    lines = "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def finish(where: Place, marker: Marker) -> None:
    """Mark the environment as whole and let the link name it. Older builds go, except the one before."""
    write_atomic(where.folder / MARKER, msgspec.json.format(msgspec.json.encode(marker), indent=2) + b"\n")
    before = where.link.resolve() if where.link.is_symlink() else None
    set_link(where)
    for folder in where.link.parent.glob(f"{where.label}.*"):
        if folder.is_dir() and folder not in (where.folder, before):
            shutil.rmtree(folder, ignore_errors=True)


def set_link(where: Place) -> None:
    """Let the link name this lock's folder. Raises `InfraError` when something else lies under that name."""
    if where.link.exists() and not where.link.is_symlink():
        raise InfraError(f"{where.link} is not llmbx's own link: move it away and start again")
    if where.link.is_symlink() and where.link.readlink() == Path(where.folder.name):
        return
    fresh = where.link.with_name(f".{where.label}.{os.getpid()}.link")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(where.folder.name)
    fresh.replace(where.link)


def drop_broken_packages(site: Path) -> None:
    """Remove the metadata of packages whose installation was cut off, so that pip installs them again."""
    for folder in site.glob("*.dist-info"):
        if not (folder / "INSTALLER").is_file() or not (folder / "RECORD").is_file():
            shutil.rmtree(folder, ignore_errors=True)
    for leftover in site.glob("~*"):
        shutil.rmtree(leftover, ignore_errors=True)
