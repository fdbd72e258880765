"""Settings of telemetry: whether a sampler runs beside the ranks of each node."""

from __future__ import annotations

from typing import Annotated, ClassVar

from llmbx.api import Option, Settings


class TelemetrySettings(Settings, frozen=True):
    """The table `[clusters.NAME.telemetry]`."""

    plugin: ClassVar[str] = "telemetry"

    enabled: Annotated[
        bool,
        Option(
            help="Sample GPUs, processes and the node once a second, on each node. [default: yes]",
            name="--telemetry",
            variables=("LLMBX_TELEMETRY",),
        ),
    ] = True
