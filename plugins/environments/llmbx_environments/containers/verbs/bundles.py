"""`llmbx image export` and `import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmbx.api import UsageError, format_bytes
from llmbx.api.verbs import OutputPath, load_workspace

from .common import environment_builder, report, with_settings

if TYPE_CHECKING:
    from llmbx.api.verbs import Workspace


@click.command("export")
@click.argument("bundle", type=OutputPath(dir_okay=False))
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "--environment",
    "workloads",
    multiple=True,
    metavar="WORKLOAD",
    help="Include the wheels of this workload's environment, which is built if missing. May be "
    "repeated.",
)
def export(bundle: Path, names: tuple[str, ...], workloads: tuple[str, ...]) -> None:
    """Export images (default: all) into one file, for machines without network access.

    The bundle includes the wheels and the tokenizer cache of the install, and a checksum of every
    file.

    \b
    Examples:
      llmbx image export site.bundle
      llmbx image export minis.bundle --environment grok1 --environment llama2
    """
    from tempfile import TemporaryDirectory

    from llmbx.api import disk_errors

    from ...bundle.export import export as write
    from ..images.inventory import entries, select

    workspace, target = load_workspace(), bundle.absolute()
    install = workspace.install.path
    if not target.parent.is_dir():
        advice = "create it, or choose another one"
        raise UsageError(f"{bundle}: folder {bundle.parent} does not exist: {advice}")
    images = select(install, names) if names else entries(install)
    prefix = f".{bundle.name}.wheels-"
    with disk_errors(str(bundle)), TemporaryDirectory(prefix=prefix, dir=target.parent) as folder:
        wheels: list[Path] = []
        for workload in workloads:
            wheels += _wheels(workload, Path(folder) / workload, workspace)
        manifest = write(target, images, install, report, wheels)
    size = format_bytes(bundle.stat().st_size)
    click.echo(f"{bundle}  {len(manifest.members)} files, {size}")


@click.command("import")
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--accept-image-change", is_flag=True, help="Accept images whose digest has changed.")
def import_(bundle: Path, accept_image_change: bool) -> None:
    """Import all files of a bundle into this install, without network access."""
    from ...bundle.unpack import import_bundle

    install = load_workspace().install
    install.ensure()
    manifest = import_bundle(bundle, install.path, accept_image_change, report)
    for key, entry in manifest.locked.items():
        click.echo(f"{key}  {entry.digest or ''}".rstrip())
    report(f"{len(manifest.members)} files imported into {install.root}")


def _wheels(workload: str, folder: Path, workspace: Workspace) -> list[Path]:
    """The wheels of a workload's environment. Raises `UsageError` if it has no environment."""
    from llmbx.api.verbs import Request

    from ...venv.runtime import requested_environment
    from ...venv.wheelhouse import gather

    spec, install = workspace.resolve(Request(workload=workload)), workspace.install
    image_request = workspace.plugins.framework(spec.plugin).prepare_image(spec)
    if image_request.environment is None:
        reason = f"has no environment for {spec.gpu_type}: there are no wheels to export"
        raise UsageError(f"{spec.workload} {reason}")
    install.ensure()
    builder = environment_builder(workspace)
    image_request = with_settings(image_request, builder, workspace)
    builder.prepare(image_request, install.path, report)
    return gather(requested_environment(image_request), install.path, folder, report)
