"""Build container images for `llmbx image build`: of a workload's CPU environment, or of a recipe's image.

For a machine without a GPU, the installed packages of the environment are copied into a base image (they come from
self-contained wheels), so the image has the packages that the lock pins and that the runtime venv uses. That build
needs no network and no installer. The base image and the environment must have the same Python version.
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

from llmbx.api import Environment, Image, ImageRequest, InfraError, Progress, UsageError, Value

from ..naming import file_name, is_file, parse_reference
from ..runtimes.container import built_reference, rebuilt_reference
from ..settings import ContainerSettings
from .definition import apptainer_definition, dockerfile, rebased
from .lockfile import STORE, remember
from .stamps import Stamp, with_identity, write_stamp
from .tool import Command, FileTool, run_import

_SITE = "/opt/llmbx/site"
_BUILD_TIMEOUT_S = 3600.0


class Recipe(Value, frozen=True):
    """One image to build: its reference, its Dockerfile without arguments, and the base image.

    `packages` is the folder of packages that the Dockerfile copies, with their `versions`; None if it copies nothing.
    """

    reference: str
    dockerfile: str
    base: str
    packages: str | None = None
    versions: dict[str, str] = {}


def environment_recipe(environment: Environment, built: Image, base: str | None = None) -> Recipe:
    """The image for `environment`, built (or planned) as `built`, on `base` (default: a Debian image)."""
    minor = (built.path or "").rpartition("-py")[2].replace("3", "3.", 1)
    chosen, lock = (
        base or f"docker.io#library/python:{minor}-slim-bookworm",
        environment.lock_digest()[:12],
    )
    return Recipe(
        reference=parse_reference(built_reference(environment)).docker,
        dockerfile=dockerfile("cpu", chosen, PYTHON=minor, ENVIRONMENT=environment.name, LOCK=lock), base=chosen,
        packages=f"{built.path}/lib/python{minor}/site-packages", versions=built.versions,
    )  # fmt: skip


def recipe_with_nsys(request: ImageRequest, base: str | None = None) -> Recipe:
    """The requested image with nsys, on the image itself or on another `base`. Raises `UsageError` without an image."""
    if request.reference is None:
        raise UsageError("the recipe has no container image: there is nothing to build for GPUs")
    reference = parse_reference(request.reference)
    chosen = base or reference.replace(digest=request.digest or reference.digest).docker
    return Recipe(
        reference=rebuilt_reference(reference), dockerfile=dockerfile("gpu", chosen), base=chosen
    )


def require_base(base: str, runtime: str) -> None:
    """Raise `UsageError` if `base` is a file that `runtime` cannot build on."""
    if not is_file(base):
        return
    suffixes = (".tar",) if runtime == "docker" else (".tar", ".sif")
    if Path(base).suffix not in suffixes:
        raise UsageError(
            f"--base {base}: {runtime} builds on a reference or a file that ends in {' or '.join(suffixes)}"
        )
    if not Path(base).is_file():
        raise UsageError(f"--base {base}: the file does not exist")


def build_docker(of: Recipe, install: Path, progress: Progress) -> str:
    """Build the image in the Docker daemon and return its reference. Raises `InfraError` if the build fails."""
    from ..runtimes.docker_store import load, stored

    source = (
        rebased(of.dockerfile, load(Path(of.base).absolute()))
        if is_file(of.base)
        else of.dockerfile
    )
    with context(of, install) as folder:
        (folder / "Dockerfile").write_text(source, encoding="utf-8")
        progress(f"image {of.reference}: building from {of.base} with docker")
        network = ("--network", "none") if of.packages else ()
        argv = ("docker", "build", "--quiet", *network, "--tag", of.reference, ".")
        # Use the legacy builder: BuildKit needs the buildx plugin, which Debian's docker client lacks.
        command = Command(argv=argv, env={"DOCKER_BUILDKIT": "0"})
        run_import(
            command, folder, f"image {of.reference}", time.monotonic() + _BUILD_TIMEOUT_S, progress
        )
    found = stored(of.reference)
    if found is None:
        raise InfraError(f"docker build succeeded, but Docker does not have {of.reference}")
    remember(install, of.reference, found.id, {STORE: found.id})
    return of.reference


def build_file(
    of: Recipe, install: Path, tool: FileTool, progress: Progress, settings: ContainerSettings
) -> Path:
    """Build the SIF file of the image in the install and return its path. Raises `InfraError` if the build fails."""
    from ..runtimes import apptainer_client
    from ..runtimes.apptainer import build_variables
    from .verify import require_intact, sha256_of_new

    target = install / "images" / file_name(of.reference, tool.suffix)
    registry = "" if is_file(of.base) else parse_reference(of.base).registry
    with context(of, install) as folder:
        (folder / "image.def").write_text(apptainer_definition(of.dockerfile), encoding="utf-8")
        output = folder / f"image{tool.suffix}"
        progress(f"image {target.name}: building from {of.base} with {tool.name}")
        variables, deadline = (
            build_variables(tool.name, folder, registry),
            time.monotonic() + _BUILD_TIMEOUT_S,
        )
        options = ("--no-https",) if settings.plain_http(registry) else ()

        def run(argv: tuple[str, ...]) -> None:
            run_import(
                Command(argv=argv, env=variables),
                folder,
                f"image {target.name}",
                deadline,
                progress,
            )

        apptainer_client.build(tool.name, folder / "image.def", output, options, run)
        require_intact(output)
        sha256 = sha256_of_new(output, progress)
        stamp = Stamp(
            path=str(target),
            reference=of.reference,
            sha256=sha256,
            tool=tool.name,
            imported=time.strftime("%Y-%m-%d"),
        )
        write_stamp(with_identity(stamp, output), install)
        remember(install, of.reference, None, {target.name: sha256})
        output.replace(target)
    return target


@contextmanager
def context(of: Recipe, install: Path) -> Iterator[Path]:
    """A temporary build context in the install; packages are hard-linked if the file system supports it."""
    if of.packages and not Path(of.packages).is_dir():
        raise UsageError(
            f"the environment has no folder {of.packages}: choose a base with its Python version"
        )
    (install / "images").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=install / "images") as name:
        folder = Path(name)
        if of.packages:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(of.packages, folder / "site", copy_function=_link, ignore=ignored)
            (folder / "llmbx.pth").write_text(_SITE + "\n", encoding="utf-8")
            (folder / "environment.json").write_text(json.dumps(of.versions), encoding="utf-8")
        yield folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
