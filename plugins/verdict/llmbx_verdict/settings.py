"""Setting of the verdict: whether the last step is computed twice."""

from __future__ import annotations

from typing import Annotated, ClassVar

from llmbx.api import Option, Settings


class VerdictSettings(Settings, frozen=True):
    """The table `[clusters.NAME.verdict]`."""

    plugin: ClassVar[str] = "verdict"

    verify_compute: Annotated[
        bool,
        Option(
            help="Repeat the passes of the last step, and compare each rank's results and weights. [default: no]",
            name="--verify-compute",
            variables=("LLMBX_VERIFY_COMPUTE",),
        ),
    ] = False
