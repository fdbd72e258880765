"""`llmbx image prepare`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmbx.api import InfraError, UsageError
from llmbx.api.verbs import NumberAbove, RunCommand, load_workspace, run_options

from .common import report, with_settings

if TYPE_CHECKING:
    from llmbx.api import ImageRequest
    from llmbx.api.verbs import Request, Workspace


@click.command("prepare", cls=RunCommand)
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
    request: Request | None,
    offline: bool,
    digest: str | None,
    timeout: float | None,
    check: bool,
) -> None:
    """Import an image, or build the environment of a workload.

    The image is given by a workload, an image reference or an image file. With `--launcher slurm`,
    or a cluster profile that sets it, the import and its check run on a compute node with the
    profile's account and partition.

    \b
    Examples:
      llmbx image prepare grok1 --gpu-type h100 --gpus 512 --launcher slurm
      llmbx image prepare nvcr.io#nvidia/nemo:25.04.01 --runtime apptainer
    """
    from ..settings import TIMEOUT

    if request is None:
        expected = "expected a workload, an image reference or an image file"
        raise UsageError(f"missing argument: {expected}")
    if timeout is not None:
        os.environ[TIMEOUT] = str(timeout)
    workspace = load_workspace()
    workspace.install.ensure()
    image_request, name = _image_request(request, workspace)
    if digest:
        image_request = image_request.replace(digest=digest)
    if image_request.reference:
        code = _prepare_on_node(request, workspace, image_request, name, timeout)
        if code is not None:
            sys.exit(code)
    runtime, install = workspace.plugins.runtime(name), workspace.install.path
    image = runtime.prepare(image_request, install, report, offline)
    if check:
        runtime.look_inside(image, install)
    click.echo("  ".join(part for part in (image.path or image.reference, image.digest) if part))


def _image_request(request: Request, workspace: Workspace) -> tuple[ImageRequest, str]:
    """What to prepare, with the runtime's name: a workload, an image reference or a file."""
    from llmbx.api import ImageRequest
    from llmbx.api.verbs import Runner

    from ..naming import is_file

    name = request.workload
    if "/" in name or "#" in name or is_file(name):
        runtime = _container_tool(request, workspace, name)
        image_request = ImageRequest(
            reference=name, accept_change=bool(request.accept_image_change)
        )
        plugin = workspace.plugins.runtime(runtime)
        return with_settings(image_request, plugin, workspace, request), runtime
    spec = workspace.resolve(request)
    spec, context = Runner.enter(spec, workspace.plugins, workspace.install)
    return context.wanted_image(spec), spec.runtime


def _container_tool(request: Request, workspace: Workspace, image: str) -> str:
    """The runtime for an image: --runtime, else the cluster profile's, else the first that works.

    Raises `InfraError` if no container tool is available.
    """
    from ..runtimes.container import tools_for

    if request.runtime and request.runtime != "auto":
        return request.runtime
    profile = workspace.profile(request)
    if profile and profile.cluster.runtime in tools_for(image):
        return profile.cluster.runtime
    reasons = []
    for runtime in tools_for(image):
        reason = workspace.plugins.runtime(runtime).available()
        if reason is None:
            return runtime
        reasons.append(f"{runtime}: {reason}")
    advice = "install one, or choose one with --runtime"
    raise InfraError(f"no container tool is available ({'; '.join(reasons)}): {advice}")


def _prepare_on_node(
    request: Request,
    workspace: Workspace,
    image_request: ImageRequest,
    runtime: str,
    timeout: float | None,
) -> int | None:
    """Import the image on a compute node, with the launcher of --launcher or the profile.

    Returns the exit code; None if the launcher cannot run commands on a compute node.
    """
    from ..images.on_node import import_command

    profile = workspace.profile(request)
    launcher = request.launcher or (profile.cluster.launcher if profile else None)
    if not launcher:
        return None
    program = str(Path(sys.argv[0]).absolute())
    command = import_command(program, image_request, runtime, timeout)
    settings = workspace.launcher_settings(request, launcher)
    argv = workspace.plugins.launcher(launcher).run_on_node(command, "llmbx-image", settings)
    if argv is None:
        return None
    report(f"importing {image_request.reference} on a compute node")
    env = {**os.environ, "LLMB_INSTALL": workspace.install.root}
    code = subprocess.run(argv, env=env, check=False).returncode
    return code if code in (0, 2, 4, 130) else InfraError.exit_code
