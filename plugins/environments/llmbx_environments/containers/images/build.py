"""Build container images: of a workload's CPU environment, or of a recipe's image.

For a machine without a GPU, the installed packages of the environment are copied into a base image
with the same Python version, so the image has the packages that the lock pins. That build needs no
network and no installer.
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
from typing import TYPE_CHECKING

from llmbx.api import Environment, Image, ImageRequest, InfraError, Progress, UsageError, Value

from ...lock_file import lock_digest
from ..built import built_reference, rebuilt_reference
from ..naming import file_name, is_file, parse_reference
from ..settings import ContainerSettings
from .definition import apptainer_definition, dockerfile, rebased
from .store import DOCKER, ImageStore, Stamp
from .tool import Command, run_import
from .verify import require_intact, sha256_of_new

if TYPE_CHECKING:
    from ..runtimes.apptainer_tool import Apptainer

_SITE = "/opt/llmbx/site"
_TIMEOUT_S = 3600.0


class Recipe(Value, frozen=True):
    """One image to build: its reference, its Dockerfile without arguments, and the base image.

    `packages` is the folder of packages that the Dockerfile copies, with their `versions`; None if
    it copies nothing.
    """

    reference: str
    dockerfile: str
    base: str
    packages: str | None = None
    versions: dict[str, str] = {}


def environment_recipe(environment: Environment, built: Image, base: str | None = None) -> Recipe:
    """The image for `environment`, built (or planned) as `built`, on `base` (default: Debian)."""
    minor = (built.path or "").rpartition("-py")[2].replace("3", "3.", 1)
    base = base or f"docker.io#library/python:{minor}-slim-bookworm"
    arguments = {
        "PYTHON": minor,
        "ENVIRONMENT": environment.name,
        "LOCK": lock_digest(environment)[:12],
    }
    return Recipe(
        reference=parse_reference(built_reference(environment)).docker,
        dockerfile=dockerfile("cpu", base, **arguments),
        base=base,
        packages=f"{built.path}/lib/python{minor}/site-packages",
        versions=built.versions,
    )


def recipe_with_nsys(request: ImageRequest, base: str | None = None) -> Recipe:
    """The requested image with nsys, on itself or another `base`. Raises `UsageError` without."""
    if request.reference is None:
        raise UsageError("the recipe has no container image: there is nothing to build for GPUs")
    reference = parse_reference(request.reference)
    base = base or reference.replace(digest=request.digest or reference.digest).docker
    return Recipe(
        reference=rebuilt_reference(reference), dockerfile=dockerfile("gpu", base), base=base
    )


def require_base(base: str, runtime: str) -> None:
    """Raise `UsageError` if `base` is a file that `runtime` cannot build on."""
    if not is_file(base):
        return
    suffixes = (".tar",) if runtime == "docker" else (".tar", ".sif")
    if Path(base).suffix not in suffixes:
        endings = " or ".join(suffixes)
        raise UsageError(
            f"--base {base}: {runtime} builds on a reference or a file that ends in {endings}"
        )
    if not Path(base).is_file():
        raise UsageError(f"--base {base}: the file does not exist")


def build_docker(recipe: Recipe, install: Path, progress: Progress) -> str:
    """Build the image in the Docker daemon and return its reference. Raises `InfraError`."""
    from ..runtimes.docker_store import load, stored

    source, reference = recipe.dockerfile, recipe.reference
    if is_file(recipe.base):
        source = rebased(source, load(Path(recipe.base).absolute()))
    with _context(recipe, install) as folder:
        (folder / "Dockerfile").write_text(source, encoding="utf-8")
        network = ("--network", "none") if recipe.packages else ()
        argv = ("docker", "build", "--quiet", *network, "--tag", reference, ".")
        # Use the legacy builder: BuildKit needs the buildx plugin, which Debian's client lacks.
        command = Command(argv=argv, env={"DOCKER_BUILDKIT": "0"})
        _run(command, folder, reference, f"building from {recipe.base} with docker", progress)
    image = stored(reference)
    if image is None:
        raise InfraError(f"docker build succeeded, but Docker does not have {reference}")
    ImageStore(install).remember(reference, image.id, {DOCKER: image.id})
    return reference


def build_file(
    recipe: Recipe, install: Path, tool: Apptainer, progress: Progress, settings: ContainerSettings
) -> Path:
    """Build the SIF file of the image in the install and return its path. Raises `InfraError`."""
    store = ImageStore(install)
    target = store.folder / file_name(recipe.reference, tool.suffix)
    registry = "" if is_file(recipe.base) else parse_reference(recipe.base).registry
    options = ("--no-https",) if settings.plain_http(registry) else ()
    with _context(recipe, install) as folder:
        definition, output = folder / "image.def", folder / f"image{tool.suffix}"
        definition.write_text(apptainer_definition(recipe.dockerfile), encoding="utf-8")
        variables = tool.build_variables(folder, registry)
        activity = f"building from {recipe.base} with {tool.name}"

        def run(argv: tuple[str, ...]) -> None:
            _run(Command(argv=argv, env=variables), folder, target.name, activity, progress)

        tool.build(definition, output, options, run)
        require_intact(output)
        sha256 = sha256_of_new(output, progress)
        stamp = Stamp(
            path=str(target),
            reference=recipe.reference,
            sha256=sha256,
            tool=tool.name,
            imported=time.strftime("%Y-%m-%d"),
        )
        store.write_stamp(stamp.of(output))
        store.remember(recipe.reference, None, {target.name: sha256})
        output.replace(target)
    return target


def _run(command: Command, folder: Path, name: str, activity: str, progress: Progress) -> None:
    title = f"image {name}"
    progress(f"{title}: {activity}")
    run_import(command, folder, title, time.monotonic() + _TIMEOUT_S, progress)


@contextmanager
def _context(recipe: Recipe, install: Path) -> Iterator[Path]:
    """A temporary build context in the install; packages are hard-linked if that is possible."""
    packages = recipe.packages
    if packages and not Path(packages).is_dir():
        advice = "choose a base with its Python version"
        raise UsageError(f"the environment has no folder {packages}: {advice}")
    images = install / "images"
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=images) as name:
        folder = Path(name)
        if packages:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(packages, folder / "site", copy_function=_link, ignore=ignored)
            (folder / "llmbx.pth").write_text(_SITE + "\n", encoding="utf-8")
            versions = json.dumps(recipe.versions)
            (folder / "environment.json").write_text(versions, encoding="utf-8")
        yield folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
