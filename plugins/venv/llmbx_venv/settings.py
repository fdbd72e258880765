"""Settings of the environments that llmbx builds."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from llmbx.api import Option, Settings

INSTALLER = "LLMBX_INSTALLER"
"""The variable that selects the installer: `pip`, `uv`, or `auto`."""


class VenvSettings(Settings, frozen=True):
    """The table `[clusters.NAME.venv]`."""

    plugin: ClassVar[str] = "venv"

    cuda: Annotated[
        Literal["12", "13"] | None,
        Option(help="Version of CUDA of a GPU run's environment, if the recipe has several. [default: the newest]"),
    ] = None
    installer: Annotated[
        Literal["auto", "pip", "uv"] | None,
        Option(help="Tool that builds environments. auto: uv if installed, and pip if uv fails. [default: auto]",
               name="", variables=(INSTALLER,)),
    ] = None  # fmt: skip
