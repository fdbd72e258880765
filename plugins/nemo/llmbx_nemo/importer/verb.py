"""Write the rows of a recipe from an installed Megatron-Bridge, or say what they differ in."""

from __future__ import annotations

from pathlib import Path

import click

DIFFERENT = 1


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--into",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the catalog's files, WORKLOAD.toml.  [default: the catalog of llmbx]",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something differs.")
@click.option(
    "--model",
    "models",
    metavar="MODEL=WORKLOAD/SIZE",
    multiple=True,
    help="Name of a model of your own recipes; can be repeated.",
)
@click.option("--image", metavar="IMAGE", help="Container image of the recipe.")
@click.pass_context
def command(
    context: click.Context,
    source: Path,
    folder: Path | None,
    check: bool,
    models: tuple[str, ...],
    image: str | None,
) -> None:
    """Write the rows of a recipe from an installed Megatron-Bridge.

    SOURCE is an environment with Megatron-Bridge 0.6 or later, a checkout of 0.4 or later, or an
    unpacked wheel. Its performance recipes are called without torch and without a GPU, and what
    they set becomes the rows, numbers of GPUs and environment of the recipe. The lines between the
    two marks in each file of the catalog are replaced; nothing is read from them.

    SOURCE may also be a checkout of exemplar-performance: its models, scales and images are
    compared with what the catalog can run, and nothing is written.

    \b
    Examples:
      llmbx catalog import ~/Megatron-Bridge --check
      llmbx catalog import .venv --into my_llm/catalog --model my_llm_7b=my-llm/7b
    """
    from . import bridge, exemplar

    if exemplar.is_checkout(source):
        differing = exemplar.compare(source)
    else:
        differing = bridge.update(source, folder, models, image, check)
    if differing and (check or exemplar.is_checkout(source)):
        context.exit(DIFFERENT)
