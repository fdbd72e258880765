"""What the verbs of `llmbx image` share: progress, settings, and the builder of environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from llmbx.api import UsageError

if TYPE_CHECKING:
    from llmbx.api import ImageRequest, Runtime
    from llmbx.api.verbs import Request, Workspace

    from ..settings import ContainerSettings


def report(line: str) -> None:
    """Print a line of progress."""
    click.echo(line, err=True)


def container_settings(workspace: Workspace, request: Request | None = None) -> ContainerSettings:
    """The settings of containers without a run."""
    from llmbx.api import convert_toml

    from ..settings import ContainerSettings

    values = workspace.plugin_settings("containers", request)
    return convert_toml(values, ContainerSettings, "settings of containers")


def with_settings(
    image_request: ImageRequest,
    runtime: Runtime,
    workspace: Workspace,
    request: Request | None = None,
) -> ImageRequest:
    """The image request with the settings of the runtime's plugin."""
    settings = {runtime.plugin: workspace.plugin_settings(runtime.plugin, request)}
    return image_request.replace(plugin_settings=settings)


def environment_builder(workspace: Workspace) -> Runtime:
    """The runtime that builds environments. Raises `UsageError` if no plugin has one."""
    for runtime in workspace.plugins.runtimes().values():
        if runtime.builds_environments:
            return runtime
    raise UsageError("no runtime that builds environments is available: enable the plugin venv")
