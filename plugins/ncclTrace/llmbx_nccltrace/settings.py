"""Settings of the NCCL trace: options of `llmbx run`, and the recipes' variable that enables it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from llmbx.api import Option, Settings

DEFAULT = "INIT,COLL,NET"
"""The subsystems that the recipes record."""


class TraceSettings(Settings, frozen=True):
    """The table `[clusters.NAME.nccltrace]`."""

    plugin: ClassVar[str] = "nccltrace"

    enabled: Annotated[bool, Option(help="Trace the run.", name="", variables=("ENABLE_NCCLTRACE",))] = False
    trace_subsystems: Annotated[
        str | None,
        Option(help=f"NCCL subsystems to log. [default: {DEFAULT}]", name="--trace-subsystems", metavar="NAMES"),
    ] = None
    trace_file_per_rank: Annotated[
        bool | None, Option(help="Write one log file per process.", name="--trace-file-per-rank")
    ] = None

    @property
    def subsystems(self) -> tuple[str, ...]:
        """The names of the subsystems, in upper case."""
        return tuple(name.strip() for name in (self.trace_subsystems or DEFAULT).upper().split(","))
