"""Prepare, build, list, verify, export and prune container images."""

from __future__ import annotations

import click

from .build import build
from .bundles import export, import_
from .images import list_, prune, verify
from .prepare import prepare


@click.group("image")
def command() -> None:
    """Prepare, build, list, verify, export and prune container images.

    Image files are stored in $LLMB_INSTALL/images, Docker images in the Docker daemon. `llmbx run`
    imports missing images automatically; use these commands to import them in advance or on another
    machine. The digest of each image is recorded in `images.lock` at the first import and checked
    afterwards.
    """


for verb in (prepare, list_, verify, prune, build, export, import_):
    command.add_command(verb)
