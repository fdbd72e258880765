"""Prepare, build, list, verify, export and prune container images."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.cli.numbers import Above
from llmbx.cli.options import World, run_options, world
from llmbx.cli.output import Target, format_option, print_rows
from llmbx.cli.plugin_options import RunCommand
from llmbx.errors import InfraError, UsageError

if TYPE_CHECKING:
    from llmbx.config.profiles import Profile
    from llmbx.config.request import Request
    from llmbx.launchers.base import Launcher
    from llmbx.model import Environment, Image, ImageRequest

    from .images.build import Recipe
    from .images.inventory import Entry

COLUMNS = ("name", "reference", "kind", "size", "digest", "imported", "state")


@click.group("image")
def command() -> None:
    """Prepare, build, list, verify, export and prune container images.

    Images lie in $LLMB_INSTALL/images (Docker's in its own store). Runs import what they need by themselves; these
    commands do it ahead, or elsewhere. `images.lock` keeps the digest under which each image was first seen.
    """


@command.command("prepare", cls=RunCommand)
@click.option("--offline", is_flag=True, help="Use only what is already here.")
@click.option("--digest", metavar="SHA256", help="Stop unless the image has this digest.")
@click.option("--timeout", type=Above(0), metavar="SECONDS", help="Give an import up after so long.")
@click.option("--check", is_flag=True, help="Also start it once, as the first run would: has it a Python?")
@run_options
def prepare(request: Request | None, offline: bool, digest: str | None, timeout: float | None, check: bool) -> None:
    """Import the image (or build the environment) of a workload, or an image by its reference or file.

    With `--launcher slurm`, or a cluster profile that has it, the import runs on a compute node with the profile's
    account and partition, and is checked there.

    \b
    Examples:
      llmbx image prepare grok1 --gpu-type h100 --gpus 512 --launcher slurm
      llmbx image prepare nvcr.io#nvidia/nemo:25.04.01 --runtime apptainer
    """
    from .images.limits import TIMEOUT

    if request is None:
        raise UsageError("which image? Name a workload, a reference or an image file")
    if timeout is not None:
        os.environ[TIMEOUT] = str(timeout)
    here = world()
    here.install.ensure()
    wanted, name = _wanted(request, here)
    wanted = wanted.replace(digest=digest) if digest else wanted
    runtime = here.plugins.runtime(name)
    if wanted.reference and (elsewhere := _elsewhere(request, here)):
        sys.exit(_prepare_on_node(request, here, elsewhere, wanted, name, timeout))
    image = runtime.prepare(wanted, here.install.path, _say, offline)
    if check:
        from llmbx.run.pipeline import inspect_image

        inspect_image(image, runtime, here.install)
    click.echo(_line(image))


@command.command("list")
@format_option
def list_(format_: str) -> None:
    """List the images of this install, and what state they are in."""
    from .images.inventory import entries

    here = world().install
    print_rows([_row(entry, format_) for entry in entries(here.path)], COLUMNS, format_, empty="no image here")


@command.command("verify")
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option("--offline", is_flag=True, help="Do not ask registries whether a tag was re-pushed.")
@format_option
def verify(names: tuple[str, ...], offline: bool, format_: str) -> None:
    """Read every byte of the images again: are they whole, are they what they were, were their tags re-pushed?

    Exit code 4 when one is not.
    """
    from .images.inventory import select, verified

    here = world().install
    checked = [verified(entry, here.path, _say, offline) for entry in select(here.path, names)]
    print_rows([_row(entry, format_) for entry in checked], COLUMNS, format_)
    sys.exit(0 if all(entry.state.startswith("ok") for entry in checked) else InfraError.exit_code)


@command.command("prune")
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option("--older-than", "days", type=Above(0, or_equal=True), metavar="DAYS", help="Also older image files.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and delete nothing.")
def prune(names: tuple[str, ...], days: float | None, dry_run: bool) -> None:
    """Delete what killed imports left behind and image files that are not whole, and the images that are named.

    `--older-than` adds the install's image files that were made so many days ago. `images.lock` keeps the digests: an
    image that comes back must be the same.

    \b
    Examples:
      llmbx image prune --dry-run
      llmbx image prune --older-than 90
      llmbx image prune nvidia+nemo+25.04.01.sqsh
    """
    from llmbx.cli.words import size

    from .images.inventory import entries, leftovers, older, remove, select, sweep

    here = world().install
    going = select(here.path, names) if names else []
    inside = [entry for entry in entries(here.path) if Path(entry.path or "").parent == here.path / "images"]
    going += [entry for entry in (older(inside, days) if days is not None else []) if entry not in going]
    going += [entry for entry in entries(here.path) if entry.state.startswith("not whole") and entry not in going]
    for path in leftovers(here.path):
        click.echo(f"leftover {path.name}")
    for entry in going:
        click.echo(f"{entry.name} ({entry.state})")
    if dry_run:
        return
    freed = sweep(here.path) + sum(remove(entry, here.path) for entry in going)
    click.echo(f"{size(freed)} freed", err=True)


@command.command("build", cls=RunCommand)
@click.option("--base", metavar="IMAGE", help="What it is built on: a reference or file with the same Python.")
@click.option("--python", "minor", metavar="X.Y", help="The base's Python, where the environment admits several.")
@click.option("--print", "print_", is_flag=True, help="Print the definition, and build nothing.")
@click.option("--offline", is_flag=True, help="Build the environment from what is already here.")
@run_options
def build(request: Request | None, base: str | None, minor: str | None, print_: bool, offline: bool) -> None:
    """Build the image of a workload's environment, for runs without a GPU in a container.

    It holds a base image and the environment that `llmbx run` would use without a container, package by package.

    \b
    Examples:
      llmbx image build grok1 --runtime docker
      llmbx run grok1 --runtime docker
      llmbx image build llama2 --runtime apptainer --base my-debian.sif --python 3.13
    """
    from .images.build import definition, dockerfile, recipe

    if request is None or not request.runtime:
        raise UsageError("name a workload and --runtime docker or apptainer")
    here = world()
    spec = here.resolve(request)
    asked = here.plugins.framework(spec.plugin).prepare_image(spec)
    environment = asked.environment
    if environment is None:
        raise UsageError(f"{spec.workload} has no environment on {spec.gpu_type}: only runs without a GPU are built")
    environment = _for_python(environment, minor) if minor else environment
    asked = asked.replace(environment=environment)
    builder, install = _builder(here), here.install.path
    if print_:
        of = recipe(environment, builder.plan(asked, install), base)
        click.echo(dockerfile(of) if request.runtime == "docker" else definition(of), nl=False)
        return
    if reason := here.plugins.runtime(request.runtime).available():
        raise InfraError(f"runtime {request.runtime}: {reason}")
    here.install.ensure()
    built = builder.prepare(asked, install, _say, offline)
    click.echo(_build(request.runtime, environment, built, recipe(environment, built, base), here))


@command.command("export")
@click.argument("bundle", type=Target(dir_okay=False))
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "--environment", "workloads", multiple=True, metavar="WORKLOAD",
    help="Also the wheels of this workload's environment, which is built first if need be. May be repeated.",
)  # fmt: skip
def export(bundle: Path, names: tuple[str, ...], workloads: tuple[str, ...]) -> None:
    """Write images (all, or those that are named) into one file for machines without a network.

    The install's wheels and its cache of tokenizers go with them, all with checksums.

    \b
    Examples:
      llmbx image export site.bundle
      llmbx image export minis.bundle --environment grok1 --environment llama2
    """
    from tempfile import TemporaryDirectory

    from llmbx.cli.words import size
    from llmbx.files import disk_errors

    from .images.bundle import export as write
    from .images.inventory import entries, select

    here = world()
    install = here.install.path
    if not bundle.absolute().parent.is_dir():
        raise UsageError(f"{bundle}: there is no folder {bundle.parent}: make it, or name another place")
    chosen = select(install, names) if names else entries(install)
    with (
        disk_errors(str(bundle)),
        TemporaryDirectory(prefix=f".{bundle.name}.wheels-", dir=bundle.absolute().parent) as folder,
    ):
        wheels = [wheel for workload in workloads for wheel in _wheels(workload, Path(folder) / workload, here)]
        manifest = write(bundle.absolute(), chosen, install, _say, list({path.name: path for path in wheels}.values()))
    click.echo(f"{bundle}  {len(manifest.members)} files, {size(bundle.stat().st_size)}")


@command.command("import")
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--accept-image-change", is_flag=True, help="Take images although they are not the ones first seen.")
def import_(bundle: Path, accept_image_change: bool) -> None:
    """Bring everything in a bundle into this install; no network is used."""
    from .images.bundle import take

    here = world()
    here.install.ensure()
    manifest = take(bundle, here.install.path, accept_image_change, _say)
    for key, entry in manifest.locked.items():
        click.echo(f"{key}  {entry.digest or ''}".rstrip())
    click.echo(f"{len(manifest.members)} files taken into {here.install.root}", err=True)


def _wheels(workload: str, folder: Path, here: World) -> list[Path]:
    """The wheels of a workload's environment in `folder`. Raises `UsageError` when it has none."""
    from llmbx.config.request import Request

    spec = here.resolve(Request(workload=workload))
    asked = here.plugins.framework(spec.plugin).prepare_image(spec)
    if asked.environment is None:
        raise UsageError(f"{spec.workload} has no environment on {spec.gpu_type}: there are no wheels to export")
    here.install.ensure()
    builder = _builder(here)
    builder.prepare(asked, here.install.path, _say)
    return [*builder.gather_wheels(asked, here.install.path, folder, _say)]


def _builder(here: World) -> Any:
    """The runtime that builds environments: a `Runtime` that can gather their packages. Raises `UsageError`."""
    for runtime in here.plugins.runtimes().values():
        if hasattr(runtime, "gather_wheels"):
            return runtime
    raise UsageError("no runtime here builds environments: enable the plugin venv")


def _for_python(environment: Environment, minor: str) -> Environment:
    """The environment for just this Python. Raises `UsageError` when its lock was not made for it."""
    if minor not in environment.pythons:
        admitted = " or ".join(environment.pythons)
        raise UsageError(f"--python {minor}: the lock of {environment.name} is for Python {admitted}")
    narrowed: Environment = environment.replace(pythons=(minor,))
    return narrowed


def _build(runtime: str, environment: Environment, built: Image, of: Recipe, here: World) -> str:
    from .images.build import build_docker, build_file

    if runtime == "docker":
        return build_docker(environment, built, of, here.install.path, _say)
    maker = getattr(here.plugins.runtime(runtime), "file_tool", None)
    if maker is None:
        raise UsageError(f"images are built for docker and apptainer, not for {runtime}")
    return str(build_file(environment, built, of, here.install.path, maker(), _say))


def _say(line: str) -> None:
    click.echo(line, err=True)


def _wanted(request: Request, here: World) -> tuple[ImageRequest, str]:
    """What is asked for and the runtime's name: of a workload, or of a reference or file by itself."""
    from llmbx.model import ImageRequest

    bare = request.workload
    if _is_image(bare):
        asked = ImageRequest(reference=bare, accept_change=request.accept_image_change)
        return asked, _container(request, here, bare)
    from llmbx.run.context import enter

    spec, rooms = enter(here.resolve(request), here.plugins, here.install)
    asked = rooms.framework.prepare_image(spec)
    return asked.replace(accept_change=spec.accept_image_change), spec.runtime


def _is_image(name: str) -> bool:
    from .naming import is_file

    return "/" in name or "#" in name or is_file(name)


def _container(request: Request, here: World, name: str) -> str:
    """The container tool for an image by itself: the one asked for, the cluster's, else the first that works here."""
    from llmbx.runtimes.select import AUTO

    from .runtimes.container import tools_for

    if request.runtime and request.runtime != AUTO:
        return request.runtime
    profile = _profile(request, here)
    named = profile.cluster.runtime if profile else None
    if named and named in tools_for(name):
        return named
    reasons = []
    for runtime in tools_for(name):
        reason = here.plugins.runtime(runtime).available()
        if reason is None:
            return runtime
        reasons.append(f"{runtime}: {reason}")
    raise InfraError(f"no container tool works here ({'; '.join(reasons)}): install one, or name one with --runtime")


def _profile(request: Request, here: World) -> Profile | None:
    from llmbx.config.profiles import choose_profile

    return choose_profile(here.config, here.cluster_files, request.cluster)


def _elsewhere(request: Request, here: World) -> Launcher | None:
    """The launcher that was asked for, by option or profile, if it can run a command on a compute node."""
    profile = _profile(request, here)
    name = request.launcher or (profile.cluster.launcher if profile else None)
    launcher = here.plugins.launcher(name) if name else None
    return launcher if hasattr(launcher, "run_on_node") else None


def _prepare_on_node(
    request: Request, here: World, launcher: Any, wanted: ImageRequest, runtime: str, timeout: float | None
) -> int:
    import subprocess

    from .images.on_node import NodeImport, import_command

    job = NodeImport(
        reference=wanted.reference or "", runtime=runtime, digest=wanted.digest, accept_change=wanted.accept_change,
        timeout_s=timeout,
    )  # fmt: skip
    program = import_command(job, (str(Path(sys.argv[0]).absolute()),))
    argv = launcher.run_on_node(program, "llmbx-image", here.launcher_settings(request, launcher.name))
    click.echo(f"importing {wanted.reference} on a compute node", err=True)
    code = subprocess.run(argv, env={**os.environ, "LLMB_INSTALL": here.install.root}, check=False).returncode
    return code if code in (0, 2, 4, 130) else InfraError.exit_code


def _row(entry: Entry, format_: str) -> dict[str, object]:
    from llmbx.cli.words import size

    shown = {name: getattr(entry, name) for name in (*COLUMNS, "path")}
    if format_ == "table":
        shown["name"] = entry.label
        shown["size"] = None if entry.size is None else size(entry.size)
        shown["digest"] = entry.digest[:19] if entry.digest else None
    return shown


def _line(image: Image) -> str:
    return "  ".join(part for part in (image.path or image.reference, image.digest) if part)
