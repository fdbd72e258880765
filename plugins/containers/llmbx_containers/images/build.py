"""Images that llmbx makes itself: a base with Python, and the environment of a run without GPUs as it was built here.

The environment is taken over whole (its packages are self-contained wheels), so the image holds what the lock pins and
what the runtime venv would use: no network and no installer inside. Base and environment must have the same Python.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmbx.catalog.environments import lock_digest
from llmbx.errors import InfraError, UsageError
from llmbx.model import Environment, Image, Value
from llmbx.runtimes.base import Progress

from ..naming import file_name, is_file, parse_reference
from ..runtimes.container import built_reference
from .lockfile import STORE, remember
from .stamps import Stamp, with_identity, write_stamp
from .tool import Command, FileTool, run_import

SITE = "/opt/llmbx/site"
FACTS = "/opt/llmbx/environment.json"
_BUILD_TIMEOUT_S = 3600.0


class Recipe(Value, frozen=True):
    """What one image is made of: the environment's name and lock, the Python it was built for, and the base."""

    name: str
    lock: str
    minor: str
    base: str

    @property
    def base_name(self) -> str:
        """The base as a tool names it: an image in a registry in Docker's spelling, or a file's path."""
        return str(Path(self.base).absolute()) if is_file(self.base) else parse_reference(self.base).docker


def default_base(minor: str) -> str:
    """The Debian image with just this Python."""
    return f"docker.io#library/python:{minor}-slim-bookworm"


def recipe(environment: Environment, built: Image, base: str | None = None) -> Recipe:
    """The recipe of the image for `environment`, built (or planned) as `built`, on `base` or the usual Debian image."""
    minor = (built.path or "").rpartition("-py")[2].replace("3", "3.", 1)
    chosen = base or default_base(minor)
    return Recipe(name=environment.name, lock=lock_digest(environment)[:12], minor=minor, base=chosen)


def dockerfile(of: Recipe) -> str:
    """The Dockerfile. Its context holds `site` (the packages), `llmbx.pth` and `environment.json`."""
    return f"""\
# The environment {of.name} (lock {of.lock}) for Python {of.minor}, for machines without a GPU.
# Made by `llmbx image build`; the context is put together by it.
ARG BASE={parse_reference(default_base(of.minor)).docker}
FROM ${{BASE}}
COPY llmbx.pth /usr/local/lib/python{of.minor}/dist-packages/llmbx.pth
COPY llmbx.pth /usr/local/lib/python{of.minor}/site-packages/llmbx.pth
COPY environment.json {FACTS}
COPY site {SITE}
LABEL org.llmbx.environment="{of.name}" org.llmbx.lock="{of.lock}"
"""


def definition(of: Recipe, plain_http: bool = False) -> str:
    """The Apptainer definition, with paths relative to the same context."""
    kinds = {".tar": "docker-archive", ".sif": "localimage"}
    bootstrap = kinds.get(Path(of.base).suffix, "docker") if is_file(of.base) else "docker"
    return f"""\
# The environment {of.name} (lock {of.lock}) for Python {of.minor}, for machines without a GPU.
# Made by `llmbx image build`; the context is put together by it.
Bootstrap: {bootstrap}
From: {of.base_name}

%files
    llmbx.pth /usr/local/lib/python{of.minor}/dist-packages/llmbx.pth
    llmbx.pth /usr/local/lib/python{of.minor}/site-packages/llmbx.pth
    environment.json {FACTS}
    site {SITE}

%labels
    org.llmbx.environment {of.name}
    org.llmbx.lock {of.lock}
"""


def build_docker(environment: Environment, built: Image, of: Recipe, install: Path, progress: Progress) -> str:
    """Build the image in the Docker daemon's store; its reference. Raises `InfraError`."""
    from ..runtimes.docker_store import load, stored

    reference = parse_reference(built_reference(environment)).docker
    base = load(Path(of.base_name)) if is_file(of.base) else of.base_name
    with context(built, of, install) as folder:
        (folder / "Dockerfile").write_text(dockerfile(of), encoding="utf-8")
        progress(f"image {reference}: building it on {of.base} with docker")
        argv = (
            "docker",
            "build",
            "--quiet",
            "--network",
            "none",
            "--build-arg",
            f"BASE={base}",
            "--tag",
            reference,
            ".",
        )
        # The classic builder: the newer one needs a plugin that Debian's client has not.
        command = Command(argv=argv, env={"DOCKER_BUILDKIT": "0"})
        run_import(command, folder, f"image {reference}", time.monotonic() + _BUILD_TIMEOUT_S, progress)
    found = stored(reference)
    if found is None:
        raise InfraError(f"docker build ended well, but Docker does not have {reference}")
    remember(install, reference, found.id, {STORE: found.id})
    return reference


def build_file(
    environment: Environment, built: Image, of: Recipe, install: Path, tool: FileTool, progress: Progress
) -> Path:
    """Build the image's SIF file in the install; its path. Raises `InfraError`."""
    from .limits import plain_http
    from .verify import require_whole, sha256_of_new

    reference = built_reference(environment)
    target = install / "images" / file_name(reference, tool.suffix)
    plain = not is_file(of.base) and plain_http(parse_reference(of.base).registry)
    with context(built, of, install) as folder:
        (folder / "image.def").write_text(definition(of), encoding="utf-8")
        output = folder / f"image{tool.suffix}"
        progress(f"image {target.name}: building it on {of.base} with {tool.name}")
        upper = tool.name.upper()
        env = {f"{upper}_TMPDIR": str(folder), f"{upper}_CACHEDIR": str(folder / "cache")}
        options = ("--no-https",) if plain else ()
        command = Command(argv=(tool.name, "build", *options, str(output), "image.def"), env=env)
        run_import(command, folder, f"image {target.name}", time.monotonic() + _BUILD_TIMEOUT_S, progress)
        require_whole(output)
        sha256 = sha256_of_new(output, progress)
        key = parse_reference(reference).docker
        stamp = Stamp(
            path=str(target), reference=key, sha256=sha256, tool=tool.name, imported=time.strftime("%Y-%m-%d")
        )
        write_stamp(with_identity(stamp, output), install)
        remember(install, key, None, {target.name: sha256})
        output.replace(target)
    return target


@contextmanager
def context(built: Image, of: Recipe, install: Path) -> Iterator[Path]:
    """A folder in the install with what goes into the image; the packages are hard links where the disk allows."""
    site = Path(built.path or "") / "lib" / f"python{of.minor}" / "site-packages"
    if not site.is_dir():
        raise UsageError(f"the environment in {built.path} is not for Python {of.minor}: name a base with its Python")
    (install / "images").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=install / "images") as name:
        folder = Path(name)
        shutil.copytree(site, folder / "site", copy_function=_link, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "llmbx.pth").write_text(SITE + "\n", encoding="utf-8")
        (folder / "environment.json").write_text(json.dumps(built.versions), encoding="utf-8")
        yield folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
