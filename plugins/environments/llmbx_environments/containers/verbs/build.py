"""`llmbx image build`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from llmbx.api import InfraError, UsageError
from llmbx.api.verbs import RunCommand, load_workspace, run_options

from .common import container_settings, environment_builder, report, with_settings

if TYPE_CHECKING:
    from llmbx.api import Environment, ImageRequest, RunSpec
    from llmbx.api.verbs import Request, Workspace

    from ..images.build import Recipe
    from ..runtimes.apptainer import ApptainerRuntime

BUILDERS = ("docker", "apptainer")
"""The runtimes whose images can be built."""


@click.command("build", cls=RunCommand)
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

    For runs without a GPU, the image consists of a base image and the same packages that `llmbx
    run` uses without a container. For GPUs, it is the recipe's image, with nsys if it has none;
    pass it to runs with --image. Docker and Apptainer build the same Dockerfile.

    \b
    Examples:
      llmbx image build grok1 --runtime docker
      llmbx run grok1 --runtime docker
      llmbx image build llama2 --runtime apptainer --base my-debian.sif --python 3.13
      llmbx image build llama3.1 --gpu-type gb200 --gpus 128 --runtime apptainer --print
    """
    from ..images.build import recipe_with_nsys, require_base

    if request is None or not request.runtime:
        raise UsageError("expected a workload and --runtime docker or apptainer")
    runtime = request.runtime
    if runtime not in BUILDERS:
        raise UsageError(f"--runtime {runtime}: images can be built only for docker and apptainer")
    if base:
        require_base(base, runtime)
    workspace = load_workspace()
    spec = workspace.resolve(request)
    image_request = workspace.plugins.framework(spec.plugin).prepare_image(spec)
    without_gpu = spec.gpu_type == "cpu"
    if not without_gpu and (minor or offline):
        reason = "are for images without a GPU, which are built from an environment"
        raise UsageError(f"--python and --offline {reason}")
    if not print_:
        _require_available(runtime, workspace)
    if without_gpu:
        builder = environment_builder(workspace)
        image_request = with_settings(image_request, builder, workspace, request)
        image_request = _for_environment(spec, image_request, minor)
        recipe = _environment_recipe(image_request, base, workspace, print_, offline)
    else:
        recipe = recipe_with_nsys(image_request, base)
    click.echo(_definition(recipe, runtime) if print_ else _build(recipe, runtime, workspace))


def _require_available(runtime: str, workspace: Workspace) -> None:
    """Raise `InfraError` if the container tool does not work here; else create the install."""
    if reason := workspace.plugins.runtime(runtime).available():
        raise InfraError(f"runtime {runtime}: {reason}")
    workspace.install.ensure()


def _for_environment(spec: RunSpec, request: ImageRequest, minor: str | None) -> ImageRequest:
    """The request for one Python version. Raises `UsageError` if there is no such environment."""
    environment = request.environment
    if environment is None:
        reason = "no environment for machines without a GPU: there is nothing to build"
        raise UsageError(f"{spec.workload} has {reason}")
    if minor is None:
        return request
    if minor not in environment.pythons:
        supported = f"{environment.name} is for Python {' or '.join(environment.pythons)}"
        raise UsageError(f"--python {minor}: the lock of {supported}")
    return request.replace(environment=environment.replace(pythons=(minor,)))


def _environment_recipe(
    request: ImageRequest, base: str | None, workspace: Workspace, print_: bool, offline: bool
) -> Recipe:
    """The image of the workload's environment, which is built if missing (not with `print_`)."""
    from ..images.build import environment_recipe

    builder, install = environment_builder(workspace), workspace.install.path
    image = builder.plan(request, install)
    if not print_:
        image = builder.prepare(request, install, report, offline)
    return environment_recipe(cast("Environment", request.environment), image, base)


def _definition(recipe: Recipe, runtime: str) -> str:
    from ..images.definition import apptainer_definition

    text = recipe.dockerfile
    return (text if runtime == "docker" else apptainer_definition(text)).removesuffix("\n")


def _build(recipe: Recipe, runtime: str, workspace: Workspace) -> str:
    """Build the image and return its reference or path."""
    from ..images.build import build_docker, build_file

    install = workspace.install.path
    if runtime == "docker":
        return build_docker(recipe, install, report)
    tool = cast("ApptainerRuntime", workspace.plugins.runtime(runtime)).file_tool()
    return str(build_file(recipe, install, tool, report, container_settings(workspace)))
