"""Settings of acceptance: whether runs leave suspected nodes out."""

from __future__ import annotations

from typing import Annotated, ClassVar

from llmbx.api import Option, Settings


class AcceptSettings(Settings, frozen=True):
    """The table `[clusters.NAME.accept]`."""

    plugin: ClassVar[str] = "accept"

    exclude_suspects: Annotated[
        bool | None,
        Option(
            help="Leave out the nodes that `llmbx nodes --suspect` shows. [default: in sweeps and retries]",
            name="--exclude-suspects",
        ),
    ] = None
