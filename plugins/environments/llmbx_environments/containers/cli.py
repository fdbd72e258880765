"""Prepare, build, list, verify, export and prune container images."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import InfraError, UsageError, format_bytes
from llmbx.api.verbs import (
    NumberAbove,
    OutputFormat,
    RunCommand,
    Workspace,
    format_option,
    load_workspace,
    print_rows,
    run_options,
)

if TYPE_CHECKING:
    from llmbx.api import Environment, Image, ImageRequest, RunSpec, Runtime
    from llmbx.api.verbs import Profile, Request

    from .images.build import Recipe
    from .images.inventory import Entry
    from .settings import ContainerSettings

BUILDERS = ("docker", "apptainer")
"""The runtimes whose images `llmbx image build` builds."""

COLUMNS = ("name", "reference", "kind", "size", "digest", "imported", "state")


@click.group("image")
def command() -> None:
    """Prepare, build, list, verify, export and prune container images.

    Image files are stored in $LLMB_INSTALL/images, Docker images in the Docker daemon. `llmbx run` imports missing
    images automatically; use these commands to import them in advance or on another machine. The digest of each image
    is recorded in `images.lock` at the first import and checked afterwards.
    """


@command.command("prepare", cls=RunCommand)
@click.option(
    "--offline", is_flag=True, help="Use only local images, wheels and caches; no network access."
)
@click.option(
    "--digest",
    metavar="SHA256",
    help="Import the image with this digest, also if the tag has moved.",
)
@click.option(
    "--timeout", type=NumberAbove(0), metavar="SECONDS", help="Abort an import after SECONDS."
)
@click.option("--check", is_flag=True, help="Start the image once and check that it has a Python.")
@run_options
def prepare(
    request: Request | None, offline: bool, digest: str | None, timeout: float | None, check: bool
) -> None:
    """Import an image, or build the environment of a workload.

    The image is given by a workload, an image reference or an image file. With `--launcher slurm`, or a cluster profile
    that sets it, the import and its check run on a compute node with the profile's account and partition.

    \b
    Examples:
      llmbx image prepare grok1 --gpu-type h100 --gpus 512 --launcher slurm
      llmbx image prepare nvcr.io#nvidia/nemo:25.04.01 --runtime apptainer
    """
    from .settings import TIMEOUT

    if request is None:
        raise UsageError(
            "missing argument: expected a workload, an image reference or an image file"
        )
    if timeout is not None:
        os.environ[TIMEOUT] = str(timeout)
    workspace = load_workspace()
    workspace.install.ensure()
    wanted, name = _wanted(request, workspace)
    wanted = wanted.replace(digest=digest) if digest else wanted
    runtime = workspace.plugins.runtime(name)
    if wanted.reference:
        code = _prepare_on_node(request, workspace, wanted, name, timeout)
        if code is not None:
            sys.exit(code)
    image = runtime.prepare(wanted, workspace.install.path, _report, offline)
    if check:
        runtime.look_inside(image, workspace.install.path)
    click.echo(_line(image))


@command.command("list")
@format_option
def list_(format_: str) -> None:
    """List the images of this install and their state."""
    from .images.inventory import entries, with_origin

    workspace = load_workspace().install
    rows = [_row(with_origin(entry), format_) for entry in entries(workspace.path)]
    print_rows(rows, COLUMNS, format_, empty="no images")


@command.command("verify")
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "--offline", is_flag=True, help="Do not check in the registries whether tags were re-pushed."
)
@format_option
def verify(names: tuple[str, ...], offline: bool, format_: str) -> None:
    """Verify images: completeness, checksum, and whether their tag was re-pushed.

    All files are read completely. Exits with code 4 if an image fails.
    """
    from .images.inventory import select, verified

    workspace = load_workspace()
    registries, install = None if offline else _settings(workspace), workspace.install.path
    checked = [verified(entry, install, _report, registries) for entry in select(install, names)]
    print_rows([_row(entry, format_) for entry in checked], COLUMNS, format_)
    sys.exit(0 if all(entry.state.startswith("ok") for entry in checked) else InfraError.exit_code)


@command.command("prune")
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "--older-than",
    "days",
    type=NumberAbove(0, or_equal=True),
    metavar="DAYS",
    help="Also delete image files older than DAYS.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
def prune(names: tuple[str, ...], days: float | None, dry_run: bool) -> None:
    """Delete leftovers of killed imports, corrupt image files, and the named images.

    The digests stay in `images.lock`, so an image that is imported again must have the same digest.

    \b
    Examples:
      llmbx image prune --dry-run
      llmbx image prune --older-than 90
      llmbx image prune nvidia+nemo+25.04.01.sqsh
    """

    from .images.inventory import delete_leftovers, entries, leftovers, older_than, remove, select

    workspace = load_workspace().install
    chosen = select(workspace.path, names) if names else []
    inside = [
        entry
        for entry in entries(workspace.path)
        if Path(entry.path or "").parent == workspace.path / "images"
    ]
    chosen += [
        entry
        for entry in (older_than(inside, days) if days is not None else [])
        if entry not in chosen
    ]
    chosen += [
        entry
        for entry in entries(workspace.path)
        if entry.state.startswith("corrupt") and entry not in chosen
    ]
    for path in leftovers(workspace.path):
        click.echo(f"leftover {path.name}")
    for entry in chosen:
        click.echo(f"{entry.name} ({entry.state})")
    if dry_run:
        return
    freed = delete_leftovers(workspace.path) + sum(
        remove(entry, workspace.path) for entry in chosen
    )
    click.echo(f"{format_bytes(freed)} freed", err=True)


@command.command("build", cls=RunCommand)
@click.option(
    "--base",
    metavar="IMAGE",
    help="Base image (reference or file); for an environment, with its Python version.",
)
@click.option(
    "--python",
    "minor",
    metavar="X.Y",
    help="Python version of the base, if the environment allows several.",
)
@click.option(
    "--print", "print_", is_flag=True, help="Print the image definition, and build nothing."
)
@click.option(
    "--offline", is_flag=True, help="Build the environment from local wheels and caches only."
)
@run_options
def build(
    request: Request | None, base: str | None, minor: str | None, print_: bool, offline: bool
) -> None:
    """Build a container image: of a workload's environment, or of its recipe's image.

    For runs without a GPU, the image consists of a base image and the same packages that `llmbx run` uses without a
    container. For GPUs, it is the recipe's image, with nsys if it has none; pass it to runs with --image. Docker and
    Apptainer build the same Dockerfile.

    \b
    Examples:
      llmbx image build grok1 --runtime docker
      llmbx run grok1 --runtime docker
      llmbx image build llama2 --runtime apptainer --base my-debian.sif --python 3.13
      llmbx image build llama3.1 --gpu-type gb200 --gpus 128 --runtime apptainer --print
    """
    from .images.build import recipe_with_nsys, require_base

    if request is None or not request.runtime:
        raise UsageError("expected a workload and --runtime docker or apptainer")
    if request.runtime not in BUILDERS:
        raise UsageError(
            f"--runtime {request.runtime}: images can be built only for docker and apptainer"
        )
    if base:
        require_base(base, request.runtime)
    workspace = load_workspace()
    spec = workspace.resolve(request)
    image_request = workspace.plugins.framework(spec.plugin).prepare_image(spec)
    if spec.gpu_type != "cpu" and (minor or offline):
        raise UsageError(
            "--python and --offline are for images without a GPU, which are built from an environment"
        )
    if not print_:
        _require_available(request.runtime, workspace)
    if spec.gpu_type == "cpu":
        image_request = _with_settings(image_request, _builder(workspace), workspace, request)
        of = _environment_recipe(spec, image_request, base, minor, workspace, print_, offline)
    else:
        of = recipe_with_nsys(image_request, base)
    click.echo(_build(request.runtime, of, workspace, print_))


@command.command("export")
@click.argument("bundle", type=OutputFormat(dir_okay=False))
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "--environment", "workloads", multiple=True, metavar="WORKLOAD",
    help="Include the wheels of this workload's environment, which is built if missing. May be repeated.",
)  # fmt: skip
def export(bundle: Path, names: tuple[str, ...], workloads: tuple[str, ...]) -> None:
    """Export images (default: all) into one file, for machines without network access.

    The bundle includes the wheels and the tokenizer cache of the install, and a checksum of every file.

    \b
    Examples:
      llmbx image export site.bundle
      llmbx image export minis.bundle --environment grok1 --environment llama2
    """
    from tempfile import TemporaryDirectory

    from llmbx.api import disk_errors

    from .images.bundle import export as write
    from .images.inventory import entries, select

    workspace = load_workspace()
    install = workspace.install.path
    if not bundle.absolute().parent.is_dir():
        raise UsageError(
            f"{bundle}: folder {bundle.parent} does not exist: create it, or choose another one"
        )
    chosen = select(install, names) if names else entries(install)
    with (
        disk_errors(str(bundle)),
        TemporaryDirectory(
            prefix=f".{bundle.name}.wheels-", dir=bundle.absolute().parent
        ) as folder,
    ):
        wheels = [
            wheel
            for workload in workloads
            for wheel in _wheels(workload, Path(folder) / workload, workspace)
        ]
        manifest = write(
            bundle.absolute(),
            chosen,
            install,
            _report,
            list({path.name: path for path in wheels}.values()),
        )
    click.echo(f"{bundle}  {len(manifest.members)} files, {format_bytes(bundle.stat().st_size)}")


@command.command("import")
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--accept-image-change", is_flag=True, help="Accept images whose digest has changed.")
def import_(bundle: Path, accept_image_change: bool) -> None:
    """Import all files of a bundle into this install, without network access."""
    from .images.unpack import import_bundle

    workspace = load_workspace()
    workspace.install.ensure()
    manifest = import_bundle(bundle, workspace.install.path, accept_image_change, _report)
    for key, entry in manifest.locked.items():
        click.echo(f"{key}  {entry.digest or ''}".rstrip())
    click.echo(f"{len(manifest.members)} files imported into {workspace.install.root}", err=True)


def _wheels(workload: str, folder: Path, workspace: Workspace) -> list[Path]:
    """Collect the wheels of a workload's environment in `folder`. Raises `UsageError` if it has no environment."""
    from llmbx.api.verbs import Request

    spec = workspace.resolve(Request(workload=workload))
    image_request = workspace.plugins.framework(spec.plugin).prepare_image(spec)
    if image_request.environment is None:
        raise UsageError(
            f"{spec.workload} has no environment for {spec.gpu_type}: there are no wheels to export"
        )
    workspace.install.ensure()
    builder = _builder(workspace)
    image_request = _with_settings(image_request, builder, workspace)
    builder.prepare(image_request, workspace.install.path, _report)
    return [*builder.gather_wheels(image_request, workspace.install.path, folder, _report)]


def _builder(workspace: Workspace) -> Runtime:
    """The runtime that builds environments and gathers their wheels. Raises `UsageError` if no plugin has one."""
    for runtime in workspace.plugins.runtimes().values():
        if runtime.builds_environments:
            return runtime
    raise UsageError("no runtime that builds environments is available: enable the plugin venv")


def _with_settings(
    image_request: ImageRequest,
    runtime: Runtime,
    workspace: Workspace,
    request: Request | None = None,
) -> ImageRequest:
    """The image request with the settings of the runtime's plugin."""
    settings = {runtime.plugin: workspace.plugin_settings(runtime.plugin, request)}
    changed: ImageRequest = image_request.replace(plugin_settings=settings)
    return changed


def _for_python(environment: Environment, minor: str) -> Environment:
    """The environment restricted to one Python version. Raises `UsageError` if its lock does not support it."""
    if minor not in environment.pythons:
        supported = " or ".join(environment.pythons)
        raise UsageError(
            f"--python {minor}: the lock of {environment.name} is for Python {supported}"
        )
    restricted: Environment = environment.replace(pythons=(minor,))
    return restricted


def _settings(workspace: Workspace, request: Request | None = None) -> ContainerSettings:
    """The settings of this plugin without a run."""
    from llmbx.api import convert_toml

    from .settings import ContainerSettings

    return convert_toml(
        workspace.plugin_settings("containers", request),
        ContainerSettings,
        "settings of containers",
    )


def _environment_recipe(
    spec: RunSpec, image_request: ImageRequest, base: str | None, minor: str | None, workspace: Workspace,
    print_: bool, offline: bool,
) -> Recipe:  # fmt: skip
    """The image of the workload's environment, which is built if it is missing (not with `print_`)."""
    from .images.build import environment_recipe

    environment = image_request.environment
    if environment is None:
        raise UsageError(
            f"{spec.workload} has no environment for machines without a GPU: there is nothing to build"
        )
    environment = _for_python(environment, minor) if minor else environment
    image_request = image_request.replace(environment=environment)
    builder, install = _builder(workspace), workspace.install.path
    planned = builder.plan(image_request, install)
    built = planned if print_ else builder.prepare(image_request, install, _report, offline)
    return environment_recipe(environment, built, base)


def _build(runtime: str, of: Recipe, workspace: Workspace, print_: bool) -> str:
    """Build the image and return its reference or path, or (`print_`) return its definition."""
    from .images.build import build_docker, build_file
    from .images.definition import apptainer_definition

    if print_:
        return (
            of.dockerfile if runtime == "docker" else apptainer_definition(of.dockerfile)
        ).removesuffix("\n")
    if runtime == "docker":
        return build_docker(of, workspace.install.path, _report)
    container: Any = workspace.plugins.runtime(runtime)
    return str(
        build_file(of, workspace.install.path, container.file_tool(), _report, _settings(workspace))
    )


def _require_available(runtime: str, workspace: Workspace) -> None:
    """Raise `InfraError` if the container tool does not work here; else create the install."""
    if reason := workspace.plugins.runtime(runtime).available():
        raise InfraError(f"runtime {runtime}: {reason}")
    workspace.install.ensure()


def _report(line: str) -> None:
    click.echo(line, err=True)


def _wanted(request: Request, workspace: Workspace) -> tuple[ImageRequest, str]:
    """The image request and the runtime's name, for a workload, an image reference or an image file."""
    from llmbx.api import ImageRequest

    bare = request.workload
    if _is_image(bare):
        name = _container(request, workspace, bare)
        image_request = ImageRequest(
            reference=bare, accept_change=bool(request.accept_image_change)
        )
        return _with_settings(
            image_request, workspace.plugins.runtime(name), workspace, request
        ), name
    from llmbx.api.verbs import RunContext

    spec, context = RunContext.enter(
        workspace.resolve(request), workspace.plugins, workspace.install
    )
    return context.wanted_image(spec), spec.runtime


def _is_image(name: str) -> bool:
    from .naming import is_file

    return "/" in name or "#" in name or is_file(name)


def _container(request: Request, workspace: Workspace, name: str) -> str:
    """The runtime for an image without a workload: --runtime, else the cluster profile's, else the first available.

    Raises `InfraError` if no container tool is available.
    """

    from .runtimes.container import tools_for

    if request.runtime and request.runtime != "auto":
        return request.runtime
    profile = _profile(request, workspace)
    named = profile.cluster.runtime if profile else None
    if named and named in tools_for(name):
        return named
    reasons = []
    for runtime in tools_for(name):
        reason = workspace.plugins.runtime(runtime).available()
        if reason is None:
            return runtime
        reasons.append(f"{runtime}: {reason}")
    raise InfraError(
        f"no container tool is available ({'; '.join(reasons)}): install one, or choose one with --runtime"
    )


def _profile(request: Request, workspace: Workspace) -> Profile | None:
    from llmbx.api.verbs import choose_profile

    return choose_profile(workspace.config, workspace.cluster_files, request.cluster)


def _prepare_on_node(
    request: Request,
    workspace: Workspace,
    wanted: ImageRequest,
    runtime: str,
    timeout: float | None,
) -> int | None:
    """Import the image on a compute node, with the launcher of --launcher or the profile; return the exit code.

    None if the launcher cannot run commands on a compute node.
    """
    import subprocess

    from .images.on_node import NodeImport, import_command

    job = NodeImport(
        reference=wanted.reference or "", runtime=runtime, digest=wanted.digest, accept_change=wanted.accept_change,
        timeout_s=timeout,
    )  # fmt: skip
    program = import_command(job, (str(Path(sys.argv[0]).absolute()),))
    profile = _profile(request, workspace)
    name = request.launcher or (profile.cluster.launcher if profile else None)
    if not name:
        return None
    settings = workspace.launcher_settings(request, name)
    argv = workspace.plugins.launcher(name).run_on_node(program, "llmbx-image", settings)
    if argv is None:
        return None
    click.echo(f"importing {wanted.reference} on a compute node", err=True)
    code = subprocess.run(
        argv, env={**os.environ, "LLMB_INSTALL": workspace.install.root}, check=False
    ).returncode
    return code if code in (0, 2, 4, 130) else InfraError.exit_code


def _row(entry: Entry, format_: str) -> dict[str, object]:

    row = {name: getattr(entry, name) for name in (*COLUMNS, "path")}
    if format_ == "table":
        row["name"] = entry.label
        row["size"] = None if entry.size is None else format_bytes(entry.size)
        row["digest"] = entry.digest[:19] if entry.digest else None
    return row


def _line(image: Image) -> str:
    return "  ".join(part for part in (image.path or image.reference, image.digest) if part)
